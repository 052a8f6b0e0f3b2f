"""Pictures of a comparison, one file each: `build(comparison)` gives a list of pictures, empty where nothing was recorded."""
