"""What people ask for: candidates of all lenses, judged by one engine, ranked; and what a person decides about them."""
