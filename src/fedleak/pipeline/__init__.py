"""What runs an audit: `audit.py` tells the whole story, the other files are its stages."""
