"""What can be checked of the sources without running them: layers, sizes, names in documents, generated tables."""
