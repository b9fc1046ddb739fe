package kafkasink

import (
	"bytes"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// The request is that of another library.
func TestOffsetFetchRequest(t *testing.T) {
	for _, f := range []offsetFetch{
		{group: "docket-a-b", clientID: "docket", stable: true},
		{group: "docket-a-b", clientID: "docket", topic: "decisions"},
	} {
		req := kmsg.NewPtrOffsetFetchRequest()
		req.SetVersion(offsetFetchVersion)
		req.Group, req.RequireStable = f.group, f.stable
		if f.topic != "" {
			req.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: f.topic, Partitions: []int32{0}}}
		}
		want := kmsg.NewRequestFormatter(kmsg.FormatterClientID(f.clientID)).AppendRequest(nil, req, correlation)
		if got := f.request(); !bytes.Equal(got, want) {
			t.Errorf("got  % x\nwant % x", got, want)
		}
	}
}

// answerOf is an answer to an offsetFetch, as another library writes it.
func answerOf(code int16, offsets ...offset) []byte {
	res := kmsg.NewPtrOffsetFetchResponse()
	res.SetVersion(offsetFetchVersion)
	res.ErrorCode = code
	for _, o := range offsets {
		p := kmsg.NewOffsetFetchResponseTopicPartition()
		p.Offset, p.LeaderEpoch = o.next, 3
		if o.metadata != "" {
			p.Metadata = &o.metadata
		}
		other := p
		other.Partition, other.Offset = 1, 5
		other.UnknownTags.Set(7, []byte("tag"))
		res.Topics = append(res.Topics, kmsg.OffsetFetchResponseTopic{Topic: o.topic, Partitions: []kmsg.OffsetFetchResponseTopicPartition{other, p}})
	}
	return res.AppendTo([]byte{0, 0, 0, correlation, 0})
}

func TestOffsetFetchAnswer(t *testing.T) {
	want := []offset{{topic: "decisions", next: 1 << 40, metadata: "1 owner=a"}, {topic: "audit", next: 7}}
	answer := answerOf(0, append(slices.Clone(want), offset{topic: "none", next: -1})...)
	var f offsetFetch
	if err := f.read(answer); err != nil || f.code != 0 || !slices.Equal(f.found, want) {
		t.Errorf("got %+v, code %d, %v; want %+v", f.found, f.code, err, want)
	}
	for n := range answer {
		if err := new(offsetFetch).read(answer[:n]); err == nil {
			t.Errorf("the first %d of %d bytes were taken for an answer", n, len(answer))
		}
	}
	f = offsetFetch{}
	if err := f.read(answerOf(30)); err != nil || f.code != 30 {
		t.Errorf("got code %d, %v; want 30", f.code, err)
	}
}

// An answer that is none ends with an error, and takes no memory for what it does not have.
func FuzzOffsetFetchAnswer(f *testing.F) {
	f.Add(answerOf(0, offset{topic: "decisions", next: 9, metadata: "1 owner=a"}))
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, answer []byte) {
		var fetch offsetFetch
		if err := fetch.read(answer); err == nil && len(fetch.found) > len(answer) {
			t.Errorf("%d offsets were found in %d bytes", len(fetch.found), len(answer))
		}
	})
}
