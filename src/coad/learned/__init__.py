"""The learned mode: two networks trained end to end by F̂β."""
