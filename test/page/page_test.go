// Package page looks at the page of a real docket with a real browser.
package page

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/docket-export/docket/internal/repo"
	"github.com/docket-export/docket/test/dockettest"
	"github.com/docket-export/docket/test/internal/artifact"
	"github.com/docket-export/docket/test/internal/poll"
)

func TestMain(m *testing.M) { os.Exit(dockettest.Main(m)) }

// hostile is text as a destination may answer it: markup, a text direction and an invisible letter.
const hostile = "<img src=x onerror=alert(1)><script>document.title='owned'</script> \u202eright to left \u200b\U000e0041 قرار"

// The page of a docket at work is whole in light, dark and on a telephone: it shows records that a
// sink gets and those that wait, what the destination says as text, and that docket is gone and
// back. Its policy forbids what it does not need. People look at the pictures below .cache/screenshots.
func TestPage(t *testing.T) {
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, hostile, http.StatusUnauthorized)
	}))
	defer refusing.Close()
	d := dockettest.New(t)
	config := fmt.Sprintf(`apiVersion: docket.dev/v1alpha1
kind: Exporter
sources: [{name: webhook, unix: {path: %q}}]
queue: {directory: %q}
sinks:
- {name: copy, file: {directory: %q}}
- {name: siem, http: {url: %q}}
`, d.Socket, filepath.Join(d.Dir, "queue"), filepath.Join(d.Dir, "export"), refusing.URL)
	d.Start(config)
	d.Send([]byte(strings.Repeat(`{"decision":"deny"}`+"\n", 1200)))

	b := newBrowser(t)
	for name, look := range map[string]struct {
		width  int64
		scheme string
	}{"light": {1280, "light"}, "dark": {1280, "dark"}, "narrow": {360, "light"}} {
		call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: look.scheme}}})
		b.do(chromedp.EmulateViewport(look.width, 900), chromedp.Navigate("http://"+d.Admin+"/"))
		b.await("document.querySelector('#sinks')?.textContent.includes('Error')")
		b.await("document.querySelector('#account')?.innerText.includes('balanced')")
		b.screenshot(name)
		if wide := eval[int](b, "document.documentElement.scrollWidth - innerWidth"); wide > 0 {
			t.Errorf("%s: the page is %d pixels wider than the window", name, wide)
		}
	}
	for selector, want := range map[string]string{
		"#sources": "Received\n1,200", "#sum": "Sink siem", "#more": "1,200 records on the way to siem", "#link": "live",
		"#verdict": "<img src=x onerror=alert(1)><script>document.title='owned'</script> right to left قرار",
	} {
		if got := eval[string](b, fmt.Sprintf("document.querySelector(%q).innerText", selector)); !strings.Contains(got, want) {
			t.Errorf("%s shows\n%s\nwant %q in it", selector, got, want)
		}
	}
	if eval[bool](b, "document.images.length > 0 || document.title.includes('owned')") {
		t.Error("what a destination answered has become markup")
	}
	d.Kill()
	b.await("document.getElementById('link').textContent.startsWith('connection lost')")
	d.Start(config)
	b.await("document.getElementById('link').textContent.startsWith('live')")
	b.check(d.Admin)

	// What a text could become, were it let in, is against the policy, and the browser says so.
	eval[bool](b, "(() => { try { document.head.append(Object.assign(document.createElement('script'), {textContent: 'window.planted = true'})) } catch {} return true })()")
	if eval[bool](b, "!!window.planted") {
		t.Error("a script that was put in runs")
	}
	if err := poll.Until(time.Minute, func() error {
		if len(b.takeFaults()) == 0 {
			return errors.New("the browser reports no breach of the policy")
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// browser is a headless Chromium with one page.
type browser struct {
	t   *testing.T
	ctx context.Context

	mu     sync.Mutex
	faults []string // exceptions and breaches of the policy; guarded by mu
	urls   []string // that were asked for; guarded by mu
}

func newBrowser(t *testing.T) *browser {
	t.Helper()
	// The sandbox needs more than a container has, and the page is our own.
	ctx, cancel := chromedp.NewContext(t.Context(), chromedp.WithAllocatorOptions(chromedp.NoSandbox,
		chromedp.ExecPath(artifact.Program(t, "chromium-headless-shell chromium-headless-shell"))))
	t.Cleanup(cancel)
	b := &browser{t: t, ctx: ctx}
	if err := chromedp.Listen(ctx, b.heed); err != nil {
		t.Fatal(err)
	}
	call(b, audits.Enable, cdp.Empty{})
	call(b, network.Enable, network.EnableParams{})
	return b
}

// heed notes what a good page never causes, and where it asks.
func (b *browser) heed(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		b.faults = append(b.faults, e.ExceptionDetails.Text)
	case *audits.EventIssueAdded:
		b.faults = append(b.faults, string(e.Issue.Code))
	case *network.EventRequestWillBeSent:
		b.urls = append(b.urls, e.Request.URL)
	}
}

func (b *browser) takeFaults() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	faults := b.faults
	b.faults = nil
	return faults
}

// check fails the test for what the browser reported, and for requests to others than address.
func (b *browser) check(address string) {
	b.t.Helper()
	for _, fault := range b.takeFaults() {
		b.t.Errorf("the browser reports %s", fault)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, url := range b.urls {
		if !strings.HasPrefix(url, "http://"+address+"/") && !strings.HasPrefix(url, "data:") {
			b.t.Errorf("the page asks for %s, want nothing beyond %s", url, address)
		}
	}
}

func (b *browser) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		b.t.Fatal(err)
	}
}

func call[P, R any](b *browser, command cdp.Command[P, R], params P) {
	b.t.Helper()
	if _, err := chromedp.Call(b.ctx, command, params); err != nil {
		b.t.Fatal(err)
	}
}

// eval returns what an expression is in the page.
func eval[T any](b *browser, expression string) T {
	b.t.Helper()
	got, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return got
}

// await waits until an expression is true in the page.
func (b *browser) await(expression string) {
	b.t.Helper()
	if err := poll.Until(2*time.Minute, func() error {
		if !eval[bool](b, "!!("+expression+")") {
			return errors.New("it is false")
		}
		return nil
	}); err != nil {
		b.t.Fatalf("wait until %s: %v; the page shows\n%s", expression, err, eval[string](b, "document.body.innerText"))
	}
}

// screenshot keeps a picture of the whole page below .cache, for people to look at.
func (b *browser) screenshot(name string) {
	b.t.Helper()
	picture, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	if err != nil {
		b.t.Fatal(err)
	}
	root, err := repo.Root()
	if err != nil {
		b.t.Fatal(err)
	}
	dir := filepath.Join(root, ".cache", "screenshots")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), picture, 0o644); err != nil {
		b.t.Fatal(err)
	}
}
