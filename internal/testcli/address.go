package testcli

import (
	"fmt"
	"math/rand/v2"
	"net"
)

// FreeAddress returns an address that no process listens at. It stays free before its use
// and across restarts of its process: a request for any port gets one of 127.0.0.1, and this
// address is on another loopback address.
func FreeAddress() (string, error) {
	l, err := net.Listen("tcp", fmt.Sprintf("127.%d.%d.%d:0", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254)))
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
