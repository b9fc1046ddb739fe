package testcli

import (
	"fmt"
	"math/rand/v2"
	"net"
)

// FreeAddress returns an address that nobody listens at, or takes before the caller
// uses it, or while the process that listens there is started again: whoever asks for
// any port, to listen or to connect, gets one of 127.0.0.1, and this is none of those.
func FreeAddress() (string, error) {
	l, err := net.Listen("tcp", fmt.Sprintf("127.%d.%d.%d:0", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254)))
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
