package exporter

import (
	"fmt"
	"net/http"
	"net/http/pprof"
	"strconv"
)

const (
	// profilePath is where profiles are. The pages of net/http/pprof have it built in.
	profilePath = "/debug/pprof/"
	// longestProfile bounds ?seconds=, so that no request holds the profiler, of
	// which there is one, for long.
	longestProfile = 300
)

// handleProfiles adds the requests below profilePath: the index, which also answers heap,
// goroutine and the like, the processor profile and the trace. The command line is
// left out. net/http/pprof registers itself on http.DefaultServeMux, which nothing here
// serves.
func handleProfiles(mux *http.ServeMux) {
	for pattern, handle := range map[string]http.HandlerFunc{
		"GET " + profilePath:             pprof.Index,
		"GET " + profilePath + "profile": pprof.Profile,
		"GET " + profilePath + "trace":   pprof.Trace,
	} {
		mux.Handle(pattern, boundedProfile(handle))
	}
}

// boundedProfile refuses ?seconds= beyond longestProfile. Below it net/http/pprof
// extends the time for the answer by as much.
func boundedProfile(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if text := r.FormValue("seconds"); text != "" {
			if seconds, err := strconv.ParseFloat(text, 64); err != nil || !(seconds > 0 && seconds <= longestProfile) {
				http.Error(w, fmt.Sprintf("seconds must be a number above 0, and at most %d", longestProfile), http.StatusBadRequest)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}
