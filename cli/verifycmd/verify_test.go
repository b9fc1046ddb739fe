package verifycmd

import (
	"strings"
	"testing"
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
