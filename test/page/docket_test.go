package page

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docket-export/docket/test/dockettest"
	"github.com/docket-export/docket/test/internal/freeport"
)

func TestMain(m *testing.M) { os.Exit(dockettest.Main(m)) }

// The real docket's page shows what it does: records that a sink gets, those that wait for
// one that is down, an end, and a start.
func TestDocket(t *testing.T) {
	nobody, err := freeport.Loopback(1)
	if err != nil {
		t.Fatal(err)
	}
	d := dockettest.New(t)
	config := fmt.Sprintf(`apiVersion: docket.dev/v1alpha1
kind: Exporter
sources: [{name: webhook, unix: {path: %q}}]
queue: {directory: %q}
sinks:
- {name: copy, file: {directory: %q}}
- {name: siem, http: {url: "http://%s/"}}
`, d.Socket, filepath.Join(d.Dir, "queue"), filepath.Join(d.Dir, "export"), nobody[0])
	d.Start(config)
	d.Send([]byte(strings.Repeat(`{"decision":"deny"}`+"\n", 1200)))
	c := newChromium(t)
	c.look(screens["light"], "http://"+d.Admin+"/")
	c.await("document.querySelector('#sinks')?.textContent.includes('Degraded')")
	c.await("document.querySelector('#account')?.innerText.includes('balanced')")
	c.screenshot("docket")
	for selector, want := range map[string]string{
		"#sources": "Received\n1,200", "#sum": "Look at: Sink siem", "#more": "1,200 records on the way to siem", "#verdict": "connection refused", "#link": "live",
	} {
		if got := c.text(selector); !strings.Contains(got, want) {
			t.Errorf("%s shows %q, want %q in it", selector, got, want)
		}
	}
	d.Kill()
	c.await("document.getElementById('link').textContent.startsWith('connection lost')")
	d.Start(config)
	c.await("document.getElementById('link').textContent.startsWith('live')")
	c.checkFaults(t, "http://"+d.Admin)
}
