"""A controlled world: texts in invented languages about the same people, places and things."""
