"""What runs an audit: `stages.py` tells the whole story, the other files are its stages."""
