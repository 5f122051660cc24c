"""Files of every format, sound and damaged, and what becomes of them."""
