package webhook

import (
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/docket-export/docket/decision"
)

// records returns those of x, less what is not asked for.
func (h *handler) records(x *exchange) []*decision.Record {
	if x.lost.Load() {
		return nil
	}
	r := x.record()
	r.Timestamp = x.start.Add(x.duration).UTC()
	r.DurationSeconds = x.duration.Seconds()
	r.WebhookPath, r.Cluster, r.Pod = x.path, h.Cluster, h.Pod
	x.decision = r.Decision
	if found := x.found.complete(r); len(found) > 0 {
		return found
	}
	return slices.DeleteFunc(h.Preset.split(r), func(r *decision.Record) bool {
		return !slices.Contains(h.Decisions, r.Decision)
	})
}

// record returns the record of the whole review.
func (x *exchange) record() *decision.Record {
	r, err := x.review()
	if err != nil {
		x.notReview = true
		r = &decision.Record{
			EventType: decision.AdmissionReview, Process: decision.Admission,
			Decision: decision.Error, Failure: err.Error(),
		}
	}
	if failure := x.whyFailed(); failure != "" {
		r.Decision, r.Failure = decision.Error, failure
	}
	if r.Decision == decision.Error && r.Code == 0 && x.status != http.StatusOK {
		r.Code = x.status
	}
	return r
}

// review reads both halves. The error says that the request is no review, or one that
// cannot be read.
func (x *exchange) review() (*decision.Record, error) {
	if x.request.unread != "" {
		return nil, errors.New("the request " + x.request.unread)
	}
	r, err := decision.ReviewRecord(x.request.reader, x.response.reader)
	if err != nil && x.body.ReadCloser != nil && !x.body.ended {
		err = errors.New("the handler did not read the whole request")
	}
	return r, err
}

// whyFailed is why the API server gets no verdict, whatever the answer says; empty: it may.
func (x *exchange) whyFailed() string {
	switch {
	case x.failure != "":
		return x.failure
	case x.body.broken:
		return "the request was cut off"
	case x.status != 0 && !verdictStatus(x.status):
		return fmt.Sprintf("HTTP status %d", x.status)
	case x.response.unread != "":
		return "the response " + x.response.unread
	}
	return ""
}

// verdictStatus reports whether the API server reads an answer of that status: the REST
// client that it calls webhooks with takes these (k8s.io/client-go/rest, transformResponse).
func verdictStatus(status int) bool {
	return http.StatusOK <= status && status <= http.StatusPartialContent
}

// release lets go of what is kept of x, and counts x where it is lost.
func (h *handler) release(x *exchange) {
	if x.lost.Load() {
		x.countLost()
	}
	h.memory.grow(-x.found.size())
	for _, part := range []*half{&x.request, &x.response} {
		h.memory.grow(-part.kept)
		if part.reader != nil {
			part.reader.Reset()
			h.readers.Put(part.reader)
		}
		*part = half{}
	}
}
