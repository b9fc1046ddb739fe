package cli

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"k8s.io/client-go/rest"
)

// handled is an API server without sockets.
type handled struct{ http.HandlerFunc }

func (h handled) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result(), nil
}

// A command ends where a cluster does not let it list policies, and names them. Nothing of it remains.
func TestClusterForbids(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := &rest.Config{Host: "http://cluster", Transport: handled{func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte(`{"apiVersion":"v1","kind":"Status","status":"Failure","reason":"Forbidden","code":403,"message":"alice cannot list ` + r.URL.Path + `"}`))
		}}}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		_, _, err := clusterPolicies(ctx, &running, config, slog.New(slog.DiscardHandler))
		const want = "alice cannot list /apis/templates.gatekeeper.sh/v1/constrainttemplates"
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
		cancel()
		running.Wait()
	})
}
