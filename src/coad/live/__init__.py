"""Live monitoring: two inputs as they come, decisions of a saved model, alarms that survive a restart."""
