package exporter

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docket-export/docket/exporter/queue"
)

// A process is killed at each request of a redrive, before the destination takes what is
// in it, and right behind the answer. No record is lost, none but those of an answered
// request come twice, and the books balance.
func TestRedriveAcrossAKill(t *testing.T) {
	if dir := os.Getenv("REDRIVE_KILL_DIR"); dir != "" {
		redriveToBeKilled(t, dir)
		return
	}
	step := 1
	if testing.Short() {
		step = 3
	}
	// Not beside other tests: until a new process has begun it holds the locks of all queues.
	for _, policy := range []OnReject{DeadLetter, DropRejected} {
		for _, answered := range []bool{false, true} {
			t.Run(fmt.Sprint(policy, " answered ", answered), func(t *testing.T) {
				kills := 0
				for killAtRequest(t, policy, 1+kills*step, answered) {
					kills++
				}
				if want := (7 + step - 1) / step; kills != want { // 8, 4, 2 and 2 of these, 1 and 1 of these, and the other 4
					t.Errorf("the redrive had %d requests, want the %d that find one of 8", kills, want)
				}
			})
		}
	}
}

// redriveToBeKilled is what the process does.
func redriveToBeKilled(t *testing.T, dir string) {
	r := &redriveTest{receiver: &receiver{}, url: os.Getenv("REDRIVE_KILL_URL"), dir: dir, pause: time.Millisecond}
	r.begin(t, OnReject(os.Getenv("REDRIVE_KILL_POLICY")))
	r.redriveAll(t)
	r.end(t)
}

// killAtRequest reports whether there was a request of this number.
func killAtRequest(t *testing.T, policy OnReject, number int, answered bool) bool {
	t.Helper()
	r := newRedriveTest(t)
	r.poison.Store(&[]int{5})
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestRedriveAcrossAKill$")
	cmd.Env = append(os.Environ(), "REDRIVE_KILL_DIR="+r.dir, "REDRIVE_KILL_URL="+r.url, "REDRIVE_KILL_POLICY="+string(policy))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	var requests atomic.Int64
	reached, killed := make(chan []int, 1), make(chan struct{})
	hook := func(numbers []int) {
		if requests.Add(1) == int64(number) {
			reached <- numbers
			<-killed
			panic(http.ErrAbortHandler)
		}
	}
	tooLate := func([]int) { // made behind the last answer, before the kill
		if requests.Load() >= int64(number) {
			<-killed
			panic(http.ErrAbortHandler)
		}
	}
	if answered {
		r.after.Store(&hook)
		r.before.Store(&tooLate)
	} else {
		r.before.Store(&hook)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	var last []int
	select {
	case last = <-reached:
	case err := <-ended:
		if err != nil {
			t.Errorf("it was not killed: %v\n%s", err, out.String())
		}
		return false
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	<-ended
	close(killed)
	r.before.Store(nil)
	r.after.Store(nil)
	r.begin(t, policy)
	defer r.end(t)
	r.redriveAll(t)
	got := r.counts()
	for n := range once(5) {
		if got[n] < 1 || got[n] > 1 && !(answered && slices.Contains(last, n)) {
			t.Errorf("killed at request %d, of %v: record %d was taken %d times", number, last, n, got[n])
		}
	}
	want := queue.Account{Delivered: redriveRecords - 1, DeadLettered: 1}
	if policy == DropRejected {
		want.DeadLettered, want.Dropped = 0, 1
	}
	r.check(t, map[int]int{}, want)
	return true
}
