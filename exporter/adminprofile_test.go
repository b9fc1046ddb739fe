package exporter

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// profileExporter is one that answers profiles.
func profileExporter(t *testing.T) *Exporter {
	t.Helper()
	e := letterExporter(t)
	e.config().Admin.Pprof = true
	return e
}

// get asks h for path, at a loopback address.
func get(t *testing.T, h http.Handler, path string) (status int, body string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody)
	r.Host = "127.0.0.1:9464"
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

func TestProfilesOnlyWhenEnabled(t *testing.T) {
	for name, tt := range map[string]struct {
		exporter *Exporter
		want     int
	}{
		"by default": {letterExporter(t), http.StatusNotFound},
		"enabled":    {profileExporter(t), http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			h := ownHost(tt.exporter.adminHandler(true))
			for _, path := range []string{"", "heap", "goroutine", "goroutine?debug=2", "allocs", "threadcreate", "trace?seconds=0.01", "profile?seconds=1"} {
				if got, body := get(t, h, profilePath+path); got != tt.want {
					t.Errorf("%s: got status %d %q, want %d", path, got, body, tt.want)
				}
			}
		})
	}
}

// The command line is nobody's business, and symbols are in the profiles.
func TestProfilesLeaveOutTheCommandLine(t *testing.T) {
	h := ownHost(profileExporter(t).adminHandler(true))
	for _, path := range []string{"cmdline", "symbol"} {
		if got, body := get(t, h, profilePath+path); got != http.StatusNotFound {
			t.Errorf("%s: got status %d %q, want 404", path, got, body)
		}
	}
}

func TestProfileOfUnboundedLengthIsRefused(t *testing.T) {
	h := ownHost(profileExporter(t).adminHandler(true))
	gone, cancel := context.WithCancel(t.Context())
	cancel() // so that one that is begun after all ends at once
	for _, seconds := range []string{"301", "1e9", "Inf", "NaN", "-1", "0", "soon"} {
		for _, kind := range []string{"profile", "trace", "heap"} {
			r := httptest.NewRequestWithContext(gone, http.MethodGet, profilePath+kind+"?seconds="+seconds, http.NoBody)
			r.Host = "127.0.0.1:9464"
			w := httptest.NewRecorder()
			if h.ServeHTTP(w, r); w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "at most 300") {
				t.Errorf("%s of %s seconds: got status %d %q, want 400 that names the bound", kind, seconds, w.Code, w.Body)
			}
		}
	}
}
