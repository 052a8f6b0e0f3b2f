"""How pictures are drawn, one file each: in characters, as an image, on a page."""
