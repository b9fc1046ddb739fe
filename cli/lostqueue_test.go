package cli

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/docket-export/docket/exporter"
)

// TestQueueDirectoryRemoved removes the queue's directory below a docket under load. As
// soon as docket is not ready, nothing more is acknowledged.
func TestQueueDirectoryRemoved(t *testing.T) {
	config, admin := testConfig(t)
	p := startProcess(t, "run", "-f", config)
	if err := waitReady(t, admin); err != nil {
		t.Fatal(err)
	}
	producer, err := net.Dial("unix", "docket.sock")
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()
	fmt.Fprintln(producer, `{"docket":{"version":1,"producer":"p","next":1}}`)
	go func() {
		for n := 1; ; n++ {
			if _, err := fmt.Fprintf(producer, "{\"n\":%d}\n", n); err != nil {
				return // docket has ended
			}
		}
	}()
	firstAck, lastAck := make(chan struct{}), make(chan uint64)
	go func() {
		var last uint64
		for answers := bufio.NewScanner(producer); answers.Scan(); {
			var answer struct{ Ack uint64 }
			if json.Unmarshal(answers.Bytes(), &answer) != nil || answer.Ack == 0 {
				continue
			}
			if last == 0 {
				close(firstAck)
			}
			last = answer.Ack
		}
		lastAck <- last
	}()
	<-firstAck

	if err := os.RemoveAll("queue"); err != nil {
		t.Log(err) // docket makes files while they are removed
	}
	eventually(t, "an exporter that is not ready", func() bool { return !isReady(t, admin) })
	var lost exporter.QueueStatus
	eventually(t, "the state Error, with what to do", func() bool {
		lost = statusOf(t, admin).Queue
		return lost.State == exporter.Error && strings.Contains(lost.Reason, "directory lost: ") && strings.Contains(lost.Reason, "restart docket")
	})
	looks := 0
	eventually(t, "a second more", func() bool { looks++; return looks > 100 })
	if isReady(t, admin) {
		t.Error("got ready again")
	}
	p.interrupt()
	eventually(t, "an exporter that drains", func() bool { return strings.Contains(p.stderr(), "stopping: ") })
	p.interrupt()
	p.wait()
	if got := <-lastAck; got > lost.LastSeq {
		t.Errorf("got an ack of %d, %d after the directory was known to be lost", got, got-lost.LastSeq)
	}
}
