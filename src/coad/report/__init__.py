"""Reports as HTML pages, and their figures. Plotly loads when a figure is made."""
