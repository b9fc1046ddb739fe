//go:build !linux && !darwin

package tap

import "net"

// hasInput would report whether nc was closed by the engine. Here it is found out by
// writing to it.
func hasInput(net.Conn) bool { return false }
