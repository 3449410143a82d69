"""Four hospitals with fifty patients each train a model together."""
