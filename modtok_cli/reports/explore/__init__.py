"""`modtok explore`: a page that segments typed text in the browser."""
