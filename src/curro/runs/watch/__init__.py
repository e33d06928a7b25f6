"""A page that shows runs while they go on."""
