"""What the commands call: files in; fitting, scoring, evaluating; model folders and tables out."""
