package page

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docket-export/docket/internal/repo"
	"github.com/docket-export/docket/test/internal/artifact"
	"github.com/docket-export/docket/test/internal/poll"
	"github.com/docket-export/docket/test/internal/proc"
)

// answerTimeout bounds what takes Chromium milliseconds, on a machine that is busy.
const answerTimeout = 2 * time.Minute

// chromium is a headless browser with one page, driven over the DevTools protocol on two
// pipes.
type chromium struct {
	t       testing.TB
	process *proc.Process
	session string
	read    chan struct{} // closed when the browser says no more

	mu     sync.Mutex
	to     *os.File
	id     int                  // guarded by mu
	waits  map[int]chan message // by id; guarded by mu
	faults []string             // what a good page never causes; guarded by mu
	urls   []string             // that the page has asked for; guarded by mu
}

// message is one of the protocol: a command, its answer, or an event.
type message struct {
	ID      int             `json:"id,omitempty"`
	Session string          `json:"sessionId,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *struct {
		Message string `json:"message"`
	} `json:"error,omitempty"`
}

// newChromium starts a browser that ends with the test.
func newChromium(t testing.TB) *chromium {
	t.Helper()
	program := artifact.Program(t, "chromium-headless-shell chromium-headless-shell")
	theirs, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	from, ours, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	// The sandbox needs more than a container has, and the page is our own.
	cmd := exec.Command(program, "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--hide-scrollbars", "--no-proxy-server", "--force-color-profile=srgb", "--user-data-dir="+t.TempDir())
	cmd.ExtraFiles = []*os.File{theirs, ours}
	process, err := proc.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	ours.Close()
	c := &chromium{t: t, process: process, to: to, waits: map[int]chan message{}, read: make(chan struct{})}
	go c.listen(from)
	t.Cleanup(func() {
		process.Kill()
		to.Close()
		<-c.read
		from.Close()
		if t.Failed() {
			t.Logf("the browser said:\n%s", process.Log().Tail(20))
		}
	})
	var target struct{ TargetID string }
	c.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	c.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	c.session = attached.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log", "Network", "Audits", "Accessibility"} {
		c.call(domain+".enable", nil, nil)
	}
	return c
}

// listen reads what the browser says until it ends.
func (c *chromium) listen(from *os.File) {
	defer close(c.read)
	for r := bufio.NewReader(from); ; {
		text, err := r.ReadBytes(0)
		if err != nil {
			return
		}
		var m message
		if err := json.Unmarshal(bytes.TrimSuffix(text, []byte{0}), &m); err != nil {
			c.fault("the browser says no JSON: " + err.Error())
			return
		}
		if m.ID != 0 {
			c.mu.Lock()
			wait := c.waits[m.ID]
			delete(c.waits, m.ID)
			c.mu.Unlock()
			wait <- m
			continue
		}
		c.heed(m)
	}
}

// heed takes an event.
func (c *chromium) heed(m message) {
	switch m.Method {
	case "Runtime.exceptionThrown", "Audits.issueAdded":
		c.fault(m.Method + " " + string(m.Params))
	case "Log.entryAdded":
		// That a server is not there is what some tests are about.
		if p := string(m.Params); strings.Contains(p, `"level":"error"`) && !strings.Contains(p, `"source":"network"`) {
			c.fault(m.Method + " " + p)
		}
	case "Network.requestWillBeSent":
		var p struct{ Request struct{ URL string } }
		if json.Unmarshal(m.Params, &p) == nil {
			c.mu.Lock()
			c.urls = append(c.urls, p.Request.URL)
			c.mu.Unlock()
		}
	}
}

func (c *chromium) fault(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = append(c.faults, text)
}

// takeFaults returns what went wrong since it was called last: violations of the policy,
// errors on the console, exceptions.
func (c *chromium) takeFaults() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	faults := c.faults
	c.faults = nil
	return faults
}

// checkFaults fails the test for whatever went wrong, and for requests that go elsewhere.
func (c *chromium) checkFaults(t *testing.T, origin string) {
	t.Helper()
	for _, fault := range c.takeFaults() {
		t.Errorf("the browser reports %s", fault)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, url := range c.urls {
		if !strings.HasPrefix(url, origin+"/") && !strings.HasPrefix(url, "data:") {
			t.Errorf("the page asks for %s, want nothing beyond %s", url, origin)
		}
	}
}

// awaitFault waits until something goes wrong that is meant to.
func (c *chromium) awaitFault(t *testing.T) {
	t.Helper()
	err := poll.Until(answerTimeout, func() error {
		if len(c.takeFaults()) == 0 {
			return errors.New("the browser reports nothing")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// awaitStatus waits until the page has shown so many more.
func (c *chromium) awaitStatus(n int) {
	c.t.Helper()
	c.eval(fmt.Sprintf("new Promise(done => { let left = %d; const o = new MutationObserver(() => { if (!--left) { o.disconnect(); done(); } }); o.observe(document.getElementById('link'), {childList: true, characterData: true, subtree: true}); })", n), nil)
}

// call runs one command, and reads its result into result unless that is nil.
func (c *chromium) call(method string, params any, result any) {
	c.t.Helper()
	if err := c.try(method, params, result); err != nil {
		c.t.Fatalf("%s: %v", method, err)
	}
}

func (c *chromium) try(method string, params any, result any) error {
	if params == nil {
		params = struct{}{}
	}
	given, err := json.Marshal(params)
	if err != nil {
		return err
	}
	wait := make(chan message, 1)
	c.mu.Lock()
	c.id++
	text, err := json.Marshal(message{ID: c.id, Session: c.session, Method: method, Params: given})
	c.waits[c.id] = wait
	if err == nil {
		_, err = c.to.Write(append(text, 0))
	}
	c.mu.Unlock()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), answerTimeout)
	defer cancel()
	select {
	case m := <-wait:
		if m.Error != nil {
			return errors.New(m.Error.Message)
		}
		if result == nil {
			return nil
		}
		return json.Unmarshal(m.Result, result)
	case <-c.process.Done():
		return fmt.Errorf("the browser has ended: %s", c.process.End())
	case <-ctx.Done():
		return ctx.Err()
	}
}

// screen is how the page is looked at.
type screen struct {
	width, height int
	dark          bool
	still         bool // the reader wants no motion
}

// look sets the screen and opens url.
func (c *chromium) look(s screen, url string) {
	c.t.Helper()
	scheme, motion := "light", "no-preference"
	if s.dark {
		scheme = "dark"
	}
	if s.still {
		motion = "reduce"
	}
	c.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": s.width, "height": s.height, "deviceScaleFactor": 1, "mobile": false}, nil)
	c.call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{
		{"name": "prefers-color-scheme", "value": scheme}, {"name": "prefers-reduced-motion", "value": motion},
	}}, nil)
	c.call("Page.navigate", map[string]any{"url": url}, nil)
}

// eval reads what an expression is in the page into result.
func (c *chromium) eval(expression string, result any) {
	c.t.Helper()
	if err := c.tryEval(expression, result); err != nil {
		c.t.Fatal(err)
	}
}

func (c *chromium) tryEval(expression string, result any) error {
	var got struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails json.RawMessage
	}
	err := c.try("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true}, &got)
	if err != nil {
		return err
	}
	if got.ExceptionDetails != nil {
		return fmt.Errorf("%s: %s", expression, got.ExceptionDetails)
	}
	if result == nil {
		return nil
	}
	return json.Unmarshal(got.Result.Value, result)
}

// await waits until an expression is true in the page.
func (c *chromium) await(expression string) {
	c.t.Helper()
	err := poll.Until(answerTimeout, func() error {
		var is bool
		if err := c.tryEval("!!("+expression+")", &is); err != nil {
			return err
		}
		if !is {
			return errors.New("it is false")
		}
		return nil
	})
	if err != nil {
		var body string
		_ = c.tryEval("document.body.innerText", &body)
		c.t.Fatalf("wait until %s: %v; the page shows\n%s", expression, err, body)
	}
}

// text is what a person reads in the part of the page that selector names.
func (c *chromium) text(selector string) (text string) {
	c.t.Helper()
	c.eval("document.querySelector("+quoted(selector)+").innerText", &text)
	return text
}

func quoted(s string) string {
	text, _ := json.Marshal(s) // a string always has a form
	return string(text)
}

// press presses a key once.
func (c *chromium) press(key, code string, number int) {
	c.t.Helper()
	for _, kind := range []string{"rawKeyDown", "char", "keyUp"} {
		params := map[string]any{"type": kind, "key": key, "code": code, "windowsVirtualKeyCode": number}
		if kind == "char" {
			if key != "Enter" {
				continue
			}
			params["text"] = "\r"
		}
		c.call("Input.dispatchKeyEvent", params, nil)
	}
}

// node is one of the accessibility tree.
type node struct {
	Ignored    bool
	Role       struct{ Value string }
	Name       struct{ Value string }
	Value      struct{ Value any }
	Properties []struct {
		Name  string
		Value struct{ Value any }
	}
}

func (n node) property(name string) any {
	for _, p := range n.Properties {
		if p.Name == name {
			return p.Value.Value
		}
	}
	return nil
}

// tree returns what a screen reader is told of the page.
func (c *chromium) tree() (nodes []node) {
	c.t.Helper()
	var all struct{ Nodes []node }
	c.call("Accessibility.getFullAXTree", nil, &all)
	for _, n := range all.Nodes {
		if !n.Ignored {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// screenshot keeps a picture of the whole page below .cache, for people to look at.
func (c *chromium) screenshot(name string) {
	c.t.Helper()
	root, err := repo.Root()
	if err != nil {
		c.t.Fatal(err)
	}
	dir := filepath.Join(root, ".cache", "screenshots")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		c.t.Fatal(err)
	}
	var shot struct{ Data string }
	c.call("Page.captureScreenshot", map[string]any{"captureBeyondViewport": true}, &shot)
	png, err := base64.StdEncoding.DecodeString(shot.Data)
	if err != nil {
		c.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644); err != nil {
		c.t.Fatal(err)
	}
}
