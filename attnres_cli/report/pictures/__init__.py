"""Pictures of a comparison, one file each: `build(comparison)` gives a list, empty where nothing was recorded."""
