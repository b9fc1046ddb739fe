// Package freeport picks TCP ports for servers that must know theirs before they
// start.
package freeport

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// Ports are taken from below the range that systems give to outgoing connections
// (from 32768 on Linux). A port of that range can be taken by any client while
// its server is down; a client that keeps dialling the dead port can even be
// given it as its own, connects to itself, and the server cannot come back.
const (
	first = 15000
	last  = 32000
)

// claims are the UDP ports of the same numbers as those that were picked. A server is
// down before it starts and after a kill, and its TCP port looks free then: the UDP
// port, which none of them uses, keeps it from test programs that run at the same time.
// It has to live as long as the process does, and so it is a variable of the package.
var claims struct {
	sync.Mutex
	conns []net.PacketConn // guarded by it; never closed
}

// Loopback returns n different addresses on 127.0.0.1 that nobody listens on. Until
// this process ends neither it nor another one that asks here is given them again.
func Loopback(n int) ([]string, error) {
	var addresses []string
	for range 1000 {
		if len(addresses) == n {
			return addresses, nil
		}
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(first+rand.IntN(last-first)))
		if claim(address) {
			addresses = append(addresses, address)
		}
	}
	return nil, fmt.Errorf("find %d free ports on 127.0.0.1: too many are in use", n)
}

// claim makes the port of address this process's own, unless it is somebody's.
func claim(address string) bool {
	conn, err := net.ListenPacket("udp", address)
	if err != nil {
		return false
	}
	if !free(address) {
		_ = conn.Close() // it is of no use
		return false
	}
	claims.Lock()
	defer claims.Unlock()
	claims.conns = append(claims.conns, conn)
	return true
}

func free(address string) bool {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return false
	}
	return l.Close() == nil
}
