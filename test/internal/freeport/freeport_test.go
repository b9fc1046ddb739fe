package freeport

import (
	"net"
	"testing"
)

// A port is picked once, though nobody listens on it yet, and it can be listened on.
func TestPickedOnce(t *testing.T) {
	addresses, err := Loopback(2)
	if err != nil {
		t.Fatal(err)
	}
	if addresses[0] == addresses[1] {
		t.Errorf("got %s twice", addresses[0])
	}
	for _, address := range addresses {
		if claim(address) {
			t.Errorf("%s was picked again", address)
		}
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Errorf("listen on a port that was picked: %v", err)
			continue
		}
		defer l.Close()
	}
}

// A port that somebody listens on is not picked.
func TestTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if claim(l.Addr().String()) {
		t.Errorf("%s was picked, and somebody listens there", l.Addr())
	}
}
