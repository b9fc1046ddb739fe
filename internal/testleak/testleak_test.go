package testleak

import (
	"os"
	"os/signal"
	"strings"
	"testing"
	"time"
)

func TestWait(t *testing.T) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt) // starts a goroutine for good
	defer signal.Stop(signals)
	end := make(chan struct{})
	started := make(chan struct{})
	go func() {
		close(started)
		<-end
	}()
	<-started
	left := wait(nil, 0)
	if len(left) != 1 || !strings.Contains(left[0], "TestWait") {
		t.Fatalf("with a goroutine that waits: got %q, want it", left)
	}
	if left := wait(map[string]bool{id(left[0]): true}, 0); len(left) > 0 {
		t.Errorf("with a goroutine that was there before: got %q, want none", left)
	}
	time.AfterFunc(10*time.Millisecond, func() { close(end) })
	if left := wait(nil, time.Minute); len(left) > 0 {
		t.Errorf("with a goroutine that ends: got %q, want none", left)
	}
}

func TestCheck(t *testing.T) {
	t.Run("nothing left", func(t *testing.T) {
		Check(t)
		done := make(chan struct{})
		go close(done)
		<-done
	})
}
