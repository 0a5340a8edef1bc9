"""Records into words, tables and pictures. Nothing here loads torch or measures anything."""
