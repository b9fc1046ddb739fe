// Package page looks at the page of docket with a real browser.
package page

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docket-export/docket/exporter/page"
	"github.com/docket-export/docket/test/internal/poll"
)

// document is a status, as its readers see it.
type document = map[string]any

// stage serves the page with whatever status a test wants to show.
type stage struct {
	*httptest.Server
	shown     atomic.Pointer[func(at time.Time) document]
	refusing  atomic.Bool // of events
	listeners atomic.Int32
}

func newStage(t *testing.T, show func(at time.Time) document) *stage {
	t.Helper()
	s := &stage{}
	s.shown.Store(&show)
	mux := http.NewServeMux()
	page.Handle(mux, func() any { return (*s.shown.Load())(time.Now()) })
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/events" {
			s.listeners.Add(1)
			defer s.listeners.Add(-1)
			if s.refusing.Load() {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

func (s *stage) show(show func(at time.Time) document) { s.shown.Store(&show) }

// awaitListeners waits until so many are served.
func (s *stage) awaitListeners(t *testing.T, want int32) {
	t.Helper()
	err := poll.Until(answerTimeout, func() error {
		if got := s.listeners.Load(); got != want {
			return fmt.Errorf("got %d listeners, want %d", got, want)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// began is when all documents of a test begin to count.
var began = time.Now()

// well is a docket without any trouble.
func well(at time.Time) document {
	n := int(at.Sub(began).Seconds()*1240) + 8_400_000
	wave := int(300 * float64(at.Second()%7))
	audit := 12345 + at.Minute()
	return document{
		"time": at.Format(time.RFC3339Nano),
		"queue": document{"id": "0197b2e4-52a1-7c1e-9d3f-6f7f2d8f7c11", "firstSeq": 8_100_000, "lastSeq": n, "bytes": 412 << 20, "maxBytes": 2 << 30,
			"state": "Active", "recordsPerSecond": 1242.4},
		"ledger": document{
			"received": n + 17, "stored": n, "duplicate": 14, "refused": document{"InvalidJSON": 2, "TooLarge": 1}, "lost": document{}, "corrupt": 0,
			"sinks": document{
				"siem":       document{"delivered": n - 40 - 2_000_000 - wave, "filtered": 2_000_000, "deadLettered": 0, "dropped": 0, "corrupt": 0, "pending": 40 + wave},
				"bus":        document{"delivered": n - 12, "filtered": 0, "deadLettered": 0, "dropped": 0, "corrupt": 0, "pending": 12},
				"compliance": document{"delivered": n, "filtered": 0, "deadLettered": 0, "dropped": 0, "corrupt": 0, "pending": 0},
			},
		},
		"sources": []document{
			{"name": "webhook", "state": "Active", "connections": 3, "records": n - audit, "recordsPerSecond": 1242.0, "lastRecord": at.Add(-200 * time.Millisecond).Format(time.RFC3339Nano)},
			{"name": "gatekeeper", "state": "Active", "connections": 0, "records": audit, "recordsPerSecond": 0.4, "lastRecord": at.Add(-42 * time.Second).Format(time.RFC3339Nano),
				"lastRun": document{"id": "2026-03-02T10:00:00Z", "complete": true, "violations": 214, "time": at.Add(-42 * time.Second).Format(time.RFC3339Nano)}},
		},
		"sinks": []document{
			{"name": "siem", "state": "Active", "cursor": n - 40, "lagSeconds": 0.21, "recordsPerSecond": 941.2, "pending": 40 + wave, "lastError": "post: connection reset", "lastErrorTime": at.Add(-3 * time.Hour).Format(time.RFC3339Nano)},
			{"name": "bus", "state": "Active", "cursor": n - 12, "lagSeconds": 0.04, "recordsPerSecond": 1242.1, "pending": 12},
			{"name": "compliance", "state": "Active", "cursor": n, "lagSeconds": 0, "recordsPerSecond": 1240.9, "pending": 0},
		},
		"config": document{"generation": 3, "state": "Active", "lastError": "", "file": "/etc/docket/docket.yaml", "loaded": at.Add(-26 * time.Hour).Format(time.RFC3339Nano), "stored": "/var/lib/docket/last-good.yaml"},
	}
}

// empty is a docket that has just begun, of a version without most fields.
func empty(time.Time) document {
	return document{"queue": document{"id": "x", "firstSeq": 1, "lastSeq": 0, "maxBytes": 2 << 30, "state": "Active"}, "sources": nil, "sinks": nil}
}

// hostile is text as another program may send it.
const hostile = "<img src=x onerror=alert(1)><script>document.title='owned'</script> \u202eright to left\u2066 \u0007bell\u001b[31m \u200b\U000e0041 قرار 決定"

// trouble is a docket in which nearly everything is wrong.
func trouble(at time.Time) document {
	d := well(at)
	stamp := func(ago time.Duration) string { return at.Add(-ago).Format(time.RFC3339Nano) }
	queue := d["queue"].(document)
	queue["bytes"], queue["fullInSeconds"] = 1850<<20, 3*3600+240
	ledger := d["ledger"].(document)
	n := ledger["stored"].(int)
	ledger["sinks"].(document)["siem"] = document{"delivered": n - 1_184_003 - 2_000_000, "filtered": 2_000_000, "deadLettered": 3, "dropped": 0, "corrupt": 0, "pending": 1_184_000}
	ledger["sinks"].(document)["bus"] = document{"delivered": n - 912_440, "filtered": 0, "deadLettered": 0, "dropped": 20, "corrupt": 0, "pending": 912_420}
	ledger["lost"] = document{"allow": 5121, "deny": 3}
	sinks := d["sinks"].([]document)
	sinks[0] = document{"name": "siem", "state": "Error", "reason": "Misconfigured", "lastError": "post https://siem.example.com/ingest: 401 Unauthorized: " + hostile,
		"lastErrorTime": stamp(2 * time.Second), "since": stamp(1610 * time.Second), "lagSeconds": 1612, "recordsPerSecond": 0, "attempts": 41, "nextAttempt": at.Add(38 * time.Second).Format(time.RFC3339Nano), "pending": 1_184_000, "deadLetters": 3}
	sinks[1] = document{"name": "bus", "state": "Degraded", "reason": "Transient", "lastError": "kafka: dial tcp 10.96.1.17:9092: connect: connection refused",
		"lastErrorTime": stamp(4 * time.Second), "since": stamp(95 * time.Second), "lagSeconds": 95, "recordsPerSecond": 12.5, "attempts": 7, "nextAttempt": at.Add(9 * time.Second).Format(time.RFC3339Nano), "pending": 912_420}
	sources := d["sources"].([]document)
	sources[1]["state"], sources[1]["reason"] = "Degraded", "/tmp/violations/topics: permission denied: docket runs as uid 65532 and the files belong to uid 1000"
	sources[1]["lastRun"] = document{"id": "2026-03-02T10:00:00Z", "complete": false, "reason": "NoRecords", "violations": 0, "time": stamp(260 * time.Second)}
	d["config"] = document{"generation": 3, "state": "Error", "file": "/etc/docket/docket.yaml", "stored": "/var/lib/docket/last-good.yaml",
		"lastError": "/etc/docket/docket.yaml:14: sinks[1].http.url: must be absolute\n/etc/docket/docket.yaml:22: sinks[2].when: undeclared reference to 'recrd'", "loaded": stamp(26 * time.Hour)}
	return d
}

// many is a docket with more parts than fit a screen.
func many(at time.Time) document {
	d := trouble(at)
	for i := range 30 {
		d["sinks"] = append(d["sinks"].([]document), document{"name": fmt.Sprintf("a-sink-with-a-name-that-is-as-long-as-names-can-be-which-is-%02d", i), "state": "Active"})
		d["sources"] = append(d["sources"].([]document), document{"name": fmt.Sprintf("source-%d", i), "state": "Active", "records": i})
	}
	return d
}

var screens = map[string]screen{
	"light":  {width: 1280, height: 900},
	"dark":   {width: 1280, height: 900, dark: true},
	"narrow": {width: 360, height: 780},
}

// shown is true once the page shows a status, and a second one.
const shown = "document.querySelector('#sources .spark path')?.getAttribute('d')?.includes('M')"

// Every look of the page is whole: nothing beside its policy is wanted, no text is cut off by
// the side of the window, and none is hard to read. People look at the screenshots.
func TestLooks(t *testing.T) {
	c := newChromium(t)
	s := newStage(t, well)
	for what, show := range map[string]func(time.Time) document{"well": well, "trouble": trouble, "many": many, "empty": empty} {
		s.show(show)
		for how, screen := range screens {
			t.Run(what+" "+how, func(t *testing.T) {
				c.look(screen, s.URL+"/")
				c.await(shown + " || " + quoted(what) + " === 'empty' && !document.querySelector('#flow').hidden")
				c.screenshot(what + "-" + how)
				var wide []string
				c.eval(tooWide, &wide)
				for _, text := range wide {
					t.Errorf("beyond the side of the window: %s", text)
				}
				var faint []string
				c.eval(hardToRead, &faint)
				for _, text := range faint {
					t.Errorf("hard to read: %s", text)
				}
				c.checkFaults(t, s.URL)
			})
		}
	}
}

// tooWide is what reaches beyond the window and cannot be scrolled to in a region of its own.
const tooWide = `(document.documentElement.scrollWidth > innerWidth ? ["the page, by " + (document.documentElement.scrollWidth - innerWidth)] : []).concat(Array.from(document.querySelectorAll("body *")).filter(e => !e.closest(".unseen, .skip, svg") &&
	!e.closest(".scroll > *") && e.getBoundingClientRect().right > innerWidth + 1).map(e => e.tagName + " " + e.className + " " + e.textContent.slice(0, 40)))`

// hardToRead are the texts whose contrast with what is behind them is below 4.5 to 1, as
// WCAG 2 counts it.
const hardToRead = `(() => {
	const parse = c => c.match(/[\d.]+/g).map(Number);
	const light = ([r, g, b]) => [r, g, b].map(v => (v /= 255) <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4).reduce((a, v, i) => a + v * [.2126, .7152, .0722][i], 0);
	const behind = e => {
		for (; e; e = e.parentElement) {
			const c = parse(getComputedStyle(e).backgroundColor);
			if (c.length < 4 || c[3] === 1) return c;
		}
		return [255, 255, 255];
	};
	const found = new Set(), walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	while (walk.nextNode()) {
		const e = walk.currentNode.parentElement;
		if (!walk.currentNode.textContent.trim() || !e.checkVisibility() || e.closest("script, .unseen, .skip")) continue;
		const a = light(parse(getComputedStyle(e).color)), b = light(behind(e));
		const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
		if (ratio < 4.5) found.add(ratio.toFixed(2) + " " + e.tagName + " " + e.className + " " + e.textContent.slice(0, 40));
	}
	return [...found];
})()`

// Texts of other programs are texts: what would be markup, or would hide or turn round what
// stands beside it, shows as what it is.
func TestTextsAreUntrusted(t *testing.T) {
	c := newChromium(t)
	s := newStage(t, func(at time.Time) document {
		d := trouble(at)
		d["sources"].([]document)[0]["reason"] = hostile
		d["queue"].(document)["reason"], d["queue"].(document)["id"] = hostile, hostile
		d["config"].(document)["lastError"], d["config"].(document)["file"] = hostile, hostile
		d["ledger"].(document)["refused"] = document{hostile: 7}
		d["sinks"] = append(d["sinks"].([]document), document{"name": hostile, "state": hostile, "reason": hostile, "lastError": hostile + strings.Repeat("long", 1<<20)})
		return d
	})
	c.look(screens["light"], s.URL+"/")
	c.await(shown)
	var got struct {
		Hostile, Escaped, Images, Scripts, Longest int
		Title                                      string
	}
	c.eval(`({
		hostile: (document.body.textContent.match(/[\u202e\u2066\u0007\u001b\u200b]|\u{e0041}/gu) ?? []).length,
		escaped: document.body.innerText.split("<img src=x onerror=alert(1)><script>document.title='owned'</script> \\u202eright to left\\u2066 \\u0007bell\\u001b[31m \\u200b\\udb40\\udc41 قرار 決定").length - 1,
		images: document.images.length, scripts: document.querySelectorAll("body script").length, title: document.title,
		longest: Math.max(...Array.from(document.querySelectorAll("pre"), e => e.textContent.length)),
	})`, &got)
	if got.Hostile != 0 || got.Images != 0 || got.Scripts != 1 || strings.Contains(got.Title, "owned") {
		t.Errorf("got %+v, want no hostile character, image or further script", got)
	}
	if got.Escaped < 8 {
		t.Errorf("got the text %d times as what it is, want it wherever it is shown:\n%s", got.Escaped, c.text("body"))
	}
	if got.Longest > 5000 {
		t.Errorf("got %d characters of one text, want it cut", got.Longest)
	}
	c.checkFaults(t, s.URL)
}

// The policy is in force, and the browser of these tests tells of what goes against it.
// One may tell of an attempt more than once, also later: each attempt has its own.
func TestPolicyIsInForce(t *testing.T) {
	s := newStage(t, well)
	for what, attempt := range map[string]string{
		"a script":         "document.head.append(Object.assign(document.createElement('script'), {textContent: 'window.planted = true'}))",
		"a style":          "document.body.setAttribute('style', 'color: red')",
		"an image":         "document.body.append(Object.assign(new Image(), {src: '/metrics'}))",
		"a frame":          "document.body.append(Object.assign(document.createElement('iframe'), {src: '/status'}))",
		"a foreign server": "fetch('http://127.0.0.2:1/').catch(() => {})",
		"markup":           "document.body.innerHTML = '<b class=planted>planted</b>'",
	} {
		t.Run(what, func(t *testing.T) {
			c := newChromium(t)
			c.look(screens["light"], s.URL+"/")
			c.await(shown)
			c.checkFaults(t, s.URL)
			c.eval("window.planted = false; try { "+attempt+" } catch {}; undefined", nil)
			c.awaitFault(t)
			var planted bool
			if c.eval("window.planted || !!document.querySelector('b.planted')", &planted); planted {
				t.Error("it was let in")
			}
		})
	}
}

// A screen reader finds the parts of the page by their roles and names.
func TestAccessibilityTree(t *testing.T) {
	c := newChromium(t)
	s := newStage(t, trouble)
	c.look(screens["light"], s.URL+"/")
	c.await(shown)
	found := map[string]bool{}
	for _, n := range c.tree() {
		role, name := n.Role.Value, n.Name.Value
		found[role+" "+name] = true
		switch role {
		case "button", "link", "meter", "region", "table", "columnheader", "rowheader", "heading":
			if name == "" {
				t.Errorf("got a %s without a name", role)
			}
		case "image", "img", "graphics-document":
			t.Errorf("got %s %q, want decoration left out", role, name)
		}
		if role == "meter" {
			if n.Value.Value != 90.0 || n.property("valuemax") != 100.0 {
				t.Errorf("the meter of the queue is %+v, want 90 of 100", n)
			}
		}
	}
	for _, want := range []string{
		"main ", "banner ", "contentinfo ", "heading docket127.0.0.1:" + s.URL[len("http://127.0.0.1:"):], "heading Sources", "heading Queue", "heading Sinks", "heading Ledger", "heading Configuration",
		"heading siem", "heading Sink siem", "heading webhook", "meter Queue on disk", "button Pause", "link Skip to the flow", "link /status",
		"table What became of every stored record, by sink", "columnheader Delivered", "rowheader bus", "table Since the queue began", "region Account of each sink", "status ",
	} {
		if !found[want] {
			t.Errorf("the tree has no %s", want)
		}
	}
	if t.Failed() {
		t.Logf("the tree has %v", slices.Sorted(maps.Keys(found)))
	}
	var levels []int
	c.eval("Array.from(document.querySelectorAll('h1, h2, h3'), h => +h.tagName[1])", &levels)
	for i := 1; i < len(levels); i++ {
		if levels[i] > levels[i-1]+1 {
			t.Errorf("got headings of the levels %v, want none left out", levels)
		}
	}
}

// Everything that can be used is reached by Tab in the order of the page, shows where the
// focus is, and keeps it when a new status comes.
func TestKeyboard(t *testing.T) {
	c := newChromium(t)
	s := newStage(t, well)
	c.look(screens["light"], s.URL+"/")
	c.await(shown)
	var order []string
	for range 8 {
		c.press("Tab", "Tab", 9)
		var at struct {
			Name    string
			Visible bool
		}
		c.eval(`(() => { const e = document.activeElement, s = getComputedStyle(e), r = e.getBoundingClientRect();
			return {name: e.getAttribute("aria-label") || e.id || e.textContent.trim() || e.tagName, visible: s.outlineStyle !== "none" && r.right > 0 && r.bottom > 0}; })()`, &at)
		order = append(order, at.Name)
		if !at.Visible {
			t.Errorf("the focus at %q does not show", at.Name)
		}
	}
	want := []string{"Skip to the flow", "pause", "Account of each sink", "H", "/status", "/metrics", "/livez", "/readyz"}
	want[3] = order[3] // a region named by its heading
	if !slices.Equal(order, want) {
		t.Errorf("got the order %q, want %q", order, want)
	}
	c.eval("document.querySelector('.scroll').focus(); document.querySelector('#sinks li').kept = true; document.querySelector('#account tr').kept = true", nil)
	c.awaitStatus(2)
	var kept bool
	if c.eval("document.activeElement === document.querySelector('.scroll') && document.querySelector('#sinks li').kept && document.querySelector('#account tr').kept", &kept); !kept {
		t.Error("a status has taken the focus, or made the nodes anew")
	}
	c.eval("document.activeElement.blur(); document.getElementById('pause').focus()", nil)
	c.press("Enter", "Enter", 13)
	c.await("document.getElementById('pause').textContent === 'Resume' && document.getElementById('pause').getAttribute('aria-pressed') === 'true'")
	c.await("document.getElementById('link').textContent.startsWith('paused')")
	before := c.text("main")
	s.awaitListeners(t, 0)
	if after := c.text("main"); after != before {
		t.Error("a page that is paused moves")
	}
	c.press("Enter", "Enter", 13)
	c.await("document.getElementById('link').textContent.startsWith('live')")
}

// A screen reader hears changes of state, and no numbers that move.
func TestOnlyNewsIsSpoken(t *testing.T) {
	c := newChromium(t)
	s := newStage(t, well)
	c.look(screens["light"], s.URL+"/")
	c.await(shown)
	c.eval("window.said = []; new MutationObserver(() => said.push(document.getElementById('say').textContent)).observe(document.getElementById('say'), {childList: true, characterData: true, subtree: true}); undefined", nil)
	c.awaitStatus(2)
	s.show(func(at time.Time) document {
		d := well(at)
		d["sinks"].([]document)[1]["state"], d["sinks"].([]document)[1]["lastError"] = "Degraded", at.String()
		return d
	})
	c.await("said.length > 0")
	c.awaitStatus(2)
	s.show(well)
	c.await("said.length > 1")
	var said []string
	c.eval("said", &said)
	if want := []string{"Sink bus Degraded", "Sink bus Degraded: over"}; !slices.Equal(said, want) {
		t.Errorf("got %q said, want %q", said, want)
	}
	var live []string
	c.eval("Array.from(document.querySelectorAll('[aria-live]'), e => e.id)", &live)
	if !slices.Equal(live, []string{"say"}) {
		t.Errorf("got the live regions %q, want say alone", live)
	}
}

// The page says that nobody answers, whether the connection ends or falls silent, keeps what
// it knew, and is live again by itself.
func TestConnectionLost(t *testing.T) {
	c := newChromium(t)
	s := newStage(t, well)
	c.look(screens["light"], s.URL+"/")
	c.await(shown)
	for how, lose := range map[string]func(t *testing.T) (mend func()){
		"refused": func(*testing.T) func() {
			s.refusing.Store(true)
			s.CloseClientConnections()
			return func() { s.refusing.Store(false) }
		},
		"silent": func(t *testing.T) func() {
			hold := make(chan struct{})
			s.show(func(at time.Time) document {
				select {
				case <-hold:
				case <-t.Context().Done():
				}
				return well(at)
			})
			return func() { close(hold) }
		},
	} {
		t.Run(how, func(t *testing.T) {
			mend := lose(t)
			c.await("document.getElementById('link').textContent.startsWith('connection lost')")
			c.screenshot("lost-" + how)
			var got struct {
				Said, Title, Sum, More string
			}
			c.eval("({said: document.getElementById('say').textContent, title: document.title, sum: document.getElementById('sum').textContent, more: document.getElementById('more').textContent})", &got)
			const lost = "Connection to docket lost"
			if got.Said != lost || got.Title != "docket: connection lost" || got.Sum != lost || !strings.HasPrefix(got.More, "The data below is from ") {
				t.Errorf("got %+v, want the loss told", got)
			}
			if got := c.text("#sinks"); !strings.Contains(got, "compliance") {
				t.Errorf("got the sinks %q, want what was known", got)
			}
			var faint []string
			if c.eval(hardToRead, &faint); len(faint) > 0 {
				t.Errorf("hard to read: %q", faint)
			}
			mend()
			c.await("document.getElementById('link').textContent.startsWith('live') && document.getElementById('say').textContent === 'Connected to docket again'")
			c.checkFaults(t, s.URL)
		})
	}
}

// Who wants no motion gets none.
func TestReducedMotion(t *testing.T) {
	c := newChromium(t)
	s := newStage(t, well)
	for still, want := range map[bool]bool{false: true, true: false} {
		c.look(screen{width: 1280, height: 900, still: still}, s.URL+"/")
		c.await(shown)
		var moves bool
		if c.eval("document.getAnimations().some(a => a.animationName === 'run')", &moves); moves != want {
			t.Errorf("reduced motion %v: got motion %v, want %v", still, moves, want)
		}
	}
}

// What the page says of a status is what the status says.
func TestFigures(t *testing.T) {
	c := newChromium(t)
	at := time.Now()
	s := newStage(t, func(time.Time) document { return trouble(at) })
	c.look(screens["light"], s.URL+"/")
	c.await("!document.querySelector('#flow').hidden")
	for _, part := range []struct {
		selector string
		want     []string
	}{
		{"#verdict", []string{"Needs an operator: Sink siem, Configuration", "1,184,000 records on the way to siem, the oldest for 26m52s.",
			"Misconfigured · for 26m50s · 1,184,000 records waiting · attempt 41 · next in 38s", "docket retry siem -f /etc/docket/docket.yaml", "full in 3 h at this rate",
			"The last audit run is not complete: NoRecords, 4m20s ago", "3 dead letters kept", "docket deadletter ls --sink siem -f", "sinks[1].http.url: must be absolute"}},
		{"#sources li", []string{"webhook", "Active", "1,242 records/s", "Connections\n3"}},
		{"#queue", []string{"1.8 GiB of 2 GiB (90 %)", "Full in 3 h at this rate"}},
		{"#sinks li:nth-child(2)", []string{"bus", "Degraded", "13 records/s", "Waiting\n912,420", "Lag\n1m35s", "Attempt\n7", "Next try in\n9s"}},
		{"#account", []string{"2,000,000", "912,420", "balanced"}},
		{"#losses", []string{"Refused: InvalidJSON\t2", "Lost before docket, as producers report: deny\t3", "Duplicate\t14"}},
		{"#config", []string{"Error, generation 3", "/etc/docket/docket.yaml", "/var/lib/docket/last-good.yaml", "undeclared reference to 'recrd'"}},
	} {
		got := c.text(part.selector)
		for _, want := range part.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s shows\n%s\nwant %q in it", part.selector, got, want)
			}
		}
	}
	var title string
	if c.eval("document.title", &title); title != "(7) docket" {
		t.Errorf("got the title %q, want the number of troubles", title)
	}
	s.show(func(at time.Time) document {
		d := well(at)
		d["ledger"].(document)["received"] = d["ledger"].(document)["received"].(int) + 5
		d["ledger"].(document)["sinks"].(document)["bus"].(document)["delivered"] = 0
		return d
	})
	c.await("document.getElementById('verdict').textContent.includes('The books do not balance: 5 lines received and not accounted for')")
	if got := c.text("#verdict"); !strings.Contains(got, "The books do not balance: sink bus: 8,") {
		t.Errorf("got\n%s\nwant the sink whose account is off", got)
	}
	if got := c.text("#account"); !strings.Contains(got, "off by") {
		t.Errorf("the account of the sinks shows\n%s\nwant the one that is off", got)
	}
}
