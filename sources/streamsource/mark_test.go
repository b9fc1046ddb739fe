package streamsource

import "testing"

// A byte order mark before the first line hides no hello.
func TestByteOrderMarkBeforeTheHello(t *testing.T) {
	r := start(t, testLimit)
	p := r.dial()
	p.send("\ufeff" + `{"docket":{"version":1,"producer":"p","next":1}}` + "\n")
	p.expect(`{"docket":{"version":1,"acked":0}}`)
	p.send("{}\n")
	p.expect(`{"ack":1}`)
}
