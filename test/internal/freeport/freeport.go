// Package freeport picks TCP ports for servers that must know theirs before they
// start.
package freeport

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports are taken from below the range that systems give to outgoing connections
// (from 32768 on Linux). A port of that range can be taken by any client while
// its server is down; a client that keeps dialling the dead port can even be
// given it as its own, connects to itself, and the server cannot come back.
const (
	first = 15000
	last  = 32000
)

// Loopback returns n different addresses on 127.0.0.1 that nobody listens on.
// They are chosen at random, so that test programs running side by side do not
// choose the same.
func Loopback(n int) ([]string, error) {
	var addresses []string
	taken := make(map[int]bool)
	for range 1000 {
		if len(addresses) == n {
			return addresses, nil
		}
		port := first + rand.IntN(last-first)
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		if taken[port] || !free(address) {
			continue
		}
		taken[port] = true
		addresses = append(addresses, address)
	}
	return nil, fmt.Errorf("find %d free ports on 127.0.0.1: too many are in use", n)
}

func free(address string) bool {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return false
	}
	return l.Close() == nil
}
