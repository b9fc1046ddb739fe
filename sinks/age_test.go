package sinks

import (
	"testing"
	"time"
)

func TestConnectionsUntil(t *testing.T) {
	ends := map[time.Duration]bool{}
	for range 100 {
		began := time.Now()
		end := ConnectionsUntil()
		if end.Before(began.Add(4*time.Minute)) || end.After(time.Now().Add(5*time.Minute)) {
			t.Errorf("connections are used for %s, want 4 to 5 minutes", end.Sub(began))
		}
		ends[end.Sub(began).Round(time.Second)] = true
	}
	if len(ends) < 10 {
		t.Errorf("100 connections have %d ages, want many", len(ends))
	}
}
