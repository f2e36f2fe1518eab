"""The control-room page: what a watch sees and does, and what people say of its alarms."""
