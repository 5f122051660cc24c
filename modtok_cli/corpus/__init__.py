"""From crawls to training text: pages in, one corpus per language out."""
