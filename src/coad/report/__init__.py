"""Pictures and pages that people look at. Plotly loads when a picture is made."""
