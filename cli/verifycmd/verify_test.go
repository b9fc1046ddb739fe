package verifycmd

import (
	"strings"
	"testing"

	"github.com/docket-export/docket/exporter/queue"
	"github.com/docket-export/docket/internal/testcli"
	"github.com/docket-export/docket/sinks/filesink/verify"
)

func TestParseAnchor(t *testing.T) {
	const queueID = "3f6c1d9e-6f0f-4a53-9a57-0d6c9b0f3a11"
	hash := strings.Repeat("0f", 32)
	if a, err := parseAnchor(queueID + "-18446744073709551615"); err != nil || a.Queue != queueID || a.Seq != 1<<64-1 || a.Line != nil {
		t.Errorf("id: got %+v, %v", a, err)
	}
	if a, err := parseAnchor(hash); err != nil || a.Line == nil || a.Line.String() != hash || a.Seq != 0 {
		t.Errorf("hash: got %+v, %v", a, err)
	}
	if a, err := parseAnchor(""); a != nil || err != nil {
		t.Errorf("nothing: got %+v, %v, want nil", a, err)
	}
	for _, text := range []string{queueID, queueID + "-0", queueID + "-", queueID + "-x", "7", "-7", hash[:63] + "g", hash + "00"} {
		if a, err := parseAnchor(text); err == nil {
			t.Errorf("%s: got %+v, want an error", text, a)
		}
	}
}

// A queue is compared with while docket works on it, and nothing is changed by that,
// however it goes.
func TestReferenceIsReadOnly(t *testing.T) {
	dir := testcli.DamagedQueue(t, `{"n":3}`)
	q, err := queue.Open(queue.Options{Directory: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close(t.Context())
	r, err := openQueueReference(dir, "a")
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	if due := r.Due(""); due != 0 {
		t.Errorf("got %d due, want 0: sink a has had nothing", due)
	}
	var got []string
	err = r.Read(t.Context(), r.Queues()[0], 2, func(r verify.Record) error {
		if r.Source != "local" || r.Received.IsZero() {
			t.Errorf("got record from %q of %s, want both", r.Source, r.Received)
		}
		got = append(got, string(r.Data))
		return nil
	})
	if want := `{"n":2} {"n":4} {"n":5} {"n":6}`; err != nil || strings.Join(got, " ") != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
}
