package httpsink

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// A body is written to again only when nobody reads it any more: not after a refusal, which may
// come before the body was read, nor where a second request had the same body.
func TestBodiesThatAreKept(t *testing.T) {
	for name, test := range map[string]struct {
		answer http.HandlerFunc // to the first request; nil: it is accepted
		kept   int
	}{
		"accepted":   {nil, 1},
		"refused":    {status(http.StatusBadRequest, ""), 0},
		"redirected": {status(http.StatusTemporaryRedirect, "", "Location", "/new"), 0},
		"unanswered": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReceiver(t, (*httptest.Server).Start)
			r.setAnswer(func(w http.ResponseWriter, req *http.Request) {
				if test.answer != nil && req.URL.Path != "/new" {
					test.answer(w, req)
					return
				}
				r.accept(req)
			})
			s := openSink(t, r.URL+"/ingest").(*sink)
			_ = s.Send(t.Context(), batch(1, `{"n":1}`)) // its error is not asked for here
			if got := len(s.spares); got != test.kept {
				t.Errorf("%d bodies are kept, want %d", got, test.kept)
			}
		})
	}
	t.Run("token replaced", func(t *testing.T) {
		i, r := newIssuer(t), newReceiver(t, (*httptest.Server).Start)
		s := openSink(t, r.URL, withOAuth2(t, i)).(*sink)
		r.wantToken("s3cret-1")
		sendWorks(t, s)
		before := len(s.spares)
		<-s.spares
		r.wantToken("s3cret-2")
		sendWorks(t, s)
		if got := len(s.spares); before != 1 || got != 0 {
			t.Errorf("%d bodies are kept, and %d after a request with an old token, want 1 and none", before, got)
		}
	})
}
