package destinations

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/test/internal/server"
)

// askTimeout bounds one request of a test to a server.
const askTimeout = 2 * time.Minute

// httpServer is a server that is asked over HTTP.
type httpServer struct {
	server.Server
	address string
}

// ask sends a request and returns the body of the answer, which must be 2xx.
func (s *httpServer) ask(method, path, body string, header http.Header) ([]byte, error) {
	req, err := http.NewRequest(method, "http://"+s.address+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header = header
	// Without keep-alive no request can be lost to a process that is gone.
	client := http.Client{Timeout: askTimeout, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	if resp.StatusCode/100 != 2 {
		return nil, fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, answer)
	}
	return answer, nil
}

// asks is ask with bodies of JSON, and an answer that is decoded unless it is nil.
func (s *httpServer) asks(t *testing.T, method, path, body string, answer any) {
	t.Helper()
	text, err := s.ask(method, path, body, http.Header{"Content-Type": {"application/json"}})
	if err != nil {
		t.Fatalf("%s: %v", s.Name, err)
	}
	if answer == nil {
		return
	}
	if err := json.Unmarshal(text, answer); err != nil {
		t.Fatalf("%s: %s %s: %v in %.300s", s.Name, method, path, err, text)
	}
}
