"""Charts as data, drawn as SVG, PNG or text."""
