package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/docket-export/docket/bench/trial"
)

// Each configuration names what it was given, and a setting is not the same as
// another.
func TestConfigurations(t *testing.T) {
	at := place{
		Directory: "/data/of/peer", Socket: "/run/peer.sock", Host: "127.0.0.1", Port: "18080", Admin: "127.0.0.1:18081",
	}
	for _, p := range peers() {
		for _, toFile := range []bool{false, true} {
			for _, s := range p.Settings {
				if toFile && slices.Contains(s.Skip, "file") {
					continue
				}
				at.Setting, at.Export = s.Name, ""
				want := []string{at.Socket, at.Port}
				if toFile {
					at.Export = "/data/of/export"
					want = []string{at.Socket, at.Export}
				}
				text, err := p.config(at)
				if err != nil {
					t.Fatalf("%s: %v", p.Name, err)
				}
				for _, w := range want {
					if !strings.Contains(text, w) {
						t.Errorf("%s, %s: no %q in\n%s", p.Name, s.Name, w, text)
					}
				}
			}
		}
	}
}

// What makes a setting safe is there, and only there.
func TestSettings(t *testing.T) {
	rsyslog, syslogNG := peers()[1], peers()[2]
	tests := map[string]struct {
		peer peer
		text string
		in   []string // the settings that have it
		file bool
	}{
		"rsyslog syncs its queue":        {rsyslog, `queue.syncQueueFiles="on"`, []string{"strict"}, false},
		"rsyslog syncs each record":      {rsyslog, `queue.checkpointInterval="1"`, []string{"strict"}, false},
		"rsyslog syncs its file":         {rsyslog, `sync="on"`, []string{"strict"}, true},
		"rsyslog has a queue in memory":  {rsyslog, `queue.type="FixedArray"`, []string{"default"}, false},
		"syslog-ng has a disk buffer":    {syslogNG, "disk-buffer(reliable(yes)", []string{"strict"}, false},
		"syslog-ng has flow control":     {syslogNG, "flags(flow-control)", []string{"strict"}, true},
		"syslog-ng syncs its file":       {syslogNG, "fsync(yes)", []string{"strict"}, true},
		"syslog-ng has a queue of 7,777": {syslogNG, "log-fifo-size(7777)", []string{"default"}, false},
		"rsyslog has a queue of 7,777":   {rsyslog, `queue.size="7777"`, []string{"default"}, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var in []string
			for _, s := range tt.peer.Settings {
				at := place{Setting: s.Name, MemoryRecords: 7777}
				if tt.file {
					at.Export = "/export"
				}
				text, err := tt.peer.config(at)
				if err != nil {
					t.Fatal(err)
				}
				if strings.Contains(text, tt.text) {
					in = append(in, s.Name)
				}
			}
			if !slices.Equal(in, tt.in) {
				t.Errorf("%s: got it in %q, want %q", tt.text, in, tt.in)
			}
		})
	}
}

func TestContenders(t *testing.T) {
	tests := map[string]struct {
		list string
		want []string // peers, in order
		err  string
	}{
		"all":         {"", []string{"docket", "rsyslog", "syslog-ng", "Filebeat", "OpenTelemetry collector"}, ""},
		"one":         {"syslog-ng", []string{"docket", "syslog-ng"}, ""},
		"docket":      {"docket", []string{"docket"}, ""},
		"two":         {"syslog-ng,rsyslog", []string{"docket", "rsyslog", "syslog-ng"}, ""},
		"one unknown": {"rsyslog,fluentd", nil, `no "fluentd"`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := contenders(peers(), tt.list)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("got error %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var names, keys []string
			for _, c := range got {
				names, keys = append(names, c.peer.Name), append(keys, c.key())
			}
			if names = slices.Compact(names); !slices.Equal(names, tt.want) {
				t.Errorf("got %q, want %q", names, tt.want)
			}
			if slices.Sort(keys); len(slices.Compact(slices.Clone(keys))) != len(keys) {
				t.Errorf("two have the same key: %q", keys)
			}
		})
	}
}

// A program is started where it was unpacked, with the place that it was given.
func TestCommandLines(t *testing.T) {
	root := t.TempDir()
	modules := filepath.Join(root, "usr/lib/x-linux-gnu/rsyslog")
	if err := os.MkdirAll(modules, 0o700); err != nil {
		t.Fatal(err)
	}
	at := place{Directory: "/data/of/peer", File: "/etc/of/peer"}
	for i, want := range []string{
		root + "/docket run -f /etc/of/peer",
		root + "/usr/sbin/rsyslogd -n -i NONE -f /etc/of/peer -M " + modules,
		root + "/usr/sbin/syslog-ng -F -f /etc/of/peer --module-path " + root + "/usr/lib/syslog-ng/* -R /data/of/peer/persist -c /data/of/peer/control",
	} {
		words, err := peers()[i].commandLine(installation{root: root}, at)
		if got := strings.Join(words, " "); got != want || err != nil {
			t.Errorf("got %s (%v), want %s", got, err, want)
		}
	}
}

// A program in Go is built once, and again when what it is built from has changed.
func TestBuild(t *testing.T) {
	log, cache := filepath.Join(t.TempDir(), "log"), filepath.Join(t.TempDir(), "peers")
	script := "cat go.mod main.go >/dev/null; echo built >>" + log + "; echo program >otelcol"
	p := peer{Name: "some", Module: "otelcol.mod", Main: "otelcol.go.txt", Version: "v1", Build: []string{"sh", "-c", script}}
	built := func(want int) {
		t.Helper()
		var in installation
		attempt(t, func(tr *trial.T) { in = build(tr, cache, p) })
		text, err := os.ReadFile(log)
		if got := strings.Count(string(text), "built"); err != nil || got != want {
			t.Errorf("built %d times (%v), want %d", got, err, want)
		}
		if _, err := os.Stat(in.path("otelcol")); err != nil || in.version != "v1" {
			t.Errorf("got version %s, %v", in.version, err)
		}
	}
	built(1)
	built(1)
	p.Build[2] += " # in another way"
	built(2)
	p.Build[2] = "echo no such module >&2; exit 1"
	err := trial.Run(t.Context(), func(tr *trial.T) { build(tr, cache, p) })
	for _, want := range []string{"some ", "no such module", "-only"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want %q in it", err, want)
		}
	}
}

// The version that the page names is the version that is built.
func TestModulesHaveTheVersion(t *testing.T) {
	for _, p := range peers() {
		if p.Module == "" {
			continue
		}
		if text, err := files.ReadFile("modules/" + p.Module); err != nil || !strings.Contains(string(text), " "+p.Version+"\n") {
			t.Errorf("%s: no %s in %s (%v)", p.Name, p.Version, text, err)
		}
	}
}

// The claims are about contenders that there are.
func TestClaimsNameContenders(t *testing.T) {
	all, err := contenders(peers(), "")
	if err != nil {
		t.Fatal(err)
	}
	there := func(key string) bool {
		return slices.ContainsFunc(all, func(c contender) bool { return c.key() == key })
	}
	w := work()
	for _, key := range w.Safest {
		if !there(key) {
			t.Errorf("safest: there is no %s", key)
		}
	}
	for _, c := range w.Claims {
		if !there(own) || c.Beside != "" && c.Beside != fastest && !there(c.Beside) {
			t.Errorf("%s: there is no %s or %s", c.What, own, c.Beside)
		}
	}
}

// fakeTools puts an apt-get and a dpkg in front that know two packages, and write
// what they are asked to log.
func fakeTools(t *testing.T) (log string) {
	t.Helper()
	dir := t.TempDir()
	log = filepath.Join(dir, "log")
	tools := map[string]string{
		"apt-get": `case "$1" in
install)
	case "$*" in *broken*) echo 'E: Unable to locate package broken' >&2; exit 100;; esac
	echo 'Inst libsome (1.0 Debian:12 [amd64])'; echo 'Inst program (1:2.3 Debian:12 [amd64])'; echo 'Conf program (1:2.3)';;
download)
	shift
	for p; do echo "$p" >> LOG; touch "${p}_1%3a2.3_amd64.deb"; done;;
esac`,
		"dpkg": `mkdir -p "$3/usr/lib/x-linux-gnu" "$3/usr/sbin"; touch "$3/usr/sbin/program"`,
	}
	for name, text := range tools {
		text = "#!/bin/sh\n" + strings.ReplaceAll(text, "LOG", log) + "\n"
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return log
}

func TestUnpack(t *testing.T) {
	log, cache := fakeTools(t), filepath.Join(t.TempDir(), "peers")
	p := peer{Name: "some", Packages: []string{"program", "program-module"}}
	for range 2 { // the second finds what the first has unpacked
		var in installation
		attempt(t, func(tr *trial.T) { in = unpack(tr, cache, p) })
		if in.version != "1:2.3" {
			t.Errorf("version: got %q, want 1:2.3", in.version)
		}
		if _, err := os.Stat(in.path("usr/sbin/program")); err != nil {
			t.Error(err)
		}
		if got, want := in.path("usr/lib/*-linux-gnu"), filepath.Join(cache, "some/usr/lib/x-linux-gnu"); got != want {
			t.Errorf("path: got %s, want %s", got, want)
		}
		if got, want := in.libraries(), "LD_LIBRARY_PATH="+filepath.Join(cache, "some/usr/lib/x-linux-gnu"); len(got) != 1 || got[0] != want {
			t.Errorf("got %q, want %s", got, want)
		}
	}
	got, err := os.ReadFile(log)
	if want := "program\nprogram-module\nlibsome\n"; err != nil || string(got) != want {
		t.Errorf("downloaded %q, %v; want %q, once", got, err, want)
	}
	left, err := filepath.Glob(filepath.Join(cache, "*"))
	if err != nil || len(left) != 1 {
		t.Errorf("left in the cache: %q, %v; want one directory", left, err)
	}
}

func TestUnpackSaysWhatToDo(t *testing.T) {
	p := peer{Name: "some", Packages: []string{"broken"}}
	t.Run("no such package", func(t *testing.T) {
		fakeTools(t)
		cache := t.TempDir()
		err := trial.Run(t.Context(), func(tr *trial.T) { unpack(tr, cache, p) })
		for _, want := range []string{"some ", "Unable to locate package broken", "apt-get update", "-only"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got error %v, want %q in it", err, want)
			}
		}
		if left, err := filepath.Glob(filepath.Join(cache, "*")); err != nil || len(left) != 0 {
			t.Errorf("left in the cache: %q, %v", left, err)
		}
	})
	t.Run("not on Debian", func(t *testing.T) {
		t.Setenv("PATH", t.TempDir())
		err := trial.Run(t.Context(), func(tr *trial.T) { unpack(tr, t.TempDir(), p) })
		for _, want := range []string{"some ", "apt-get", "Debian", "-only"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got error %v, want %q in it", err, want)
			}
		}
	})
}
