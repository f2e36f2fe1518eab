"""What every page that coad serves needs: a guard against strangers, a socket, values that JSON can hold."""
