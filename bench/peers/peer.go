package main

import (
	"embed"
	"fmt"
	"slices"
	"strings"
	"text/template"

	"github.com/docket-export/docket/bench/report"
	"github.com/docket-export/docket/bench/trial"
)

// peer is a program that takes lines on a unix stream socket, keeps them, and sends
// them to an HTTP server or writes them to a file, as peers.yaml has it.
//
// It needs no code to tell that it is ready, or what it has taken: it is ready when
// its socket takes connections, and has taken a load when it has acknowledged it or,
// where there are no acks, has read the end of each stream and closed the connection.
type peer struct {
	Name     string   // as the tables show it; for the name of its directory too
	Packages []string // of Debian
	// Module is the file below modules that a program in Go is built with, beside Main,
	// by Build in an empty directory, and the version of the program in it.
	Module, Main, Version string
	Build                 []string
	Template              string
	Command               []string // each a template, as the configuration is
	Settings              []setting
}

// setting is one way to run a peer.
type setting struct {
	Name     string   // unique for the peer
	About    string   // what it promises, for the page
	Protocol string   // of its producers: docket or otlp, which acknowledge; "": lines
	Skip     []string // measures that it cannot do
}

const (
	protocolDocket = "docket"
	protocolOTLP   = "otlp"
)

// place is where a peer runs, and what its templates can use. Their function path finds
// what the peer was installed with: its first match below the directory.
type place struct {
	Setting   string // the name of the setting
	Directory string // on the disk, for all it keeps
	File      string // of its configuration
	Socket    string // where it has to listen
	Export    string // directory for the files it writes, *.ndjson; "": it sends to Host and Port
	Host      string // of the HTTP server that takes the records
	Port      string
	Admin     string // address that nobody listens on, for what it may serve itself
	// MemoryRecords is how many records a queue in memory has to hold; 0: it is
	// left at its default.
	MemoryRecords int
}

//go:embed templates modules peers.yaml measures.yaml page.md
var files embed.FS

// peers are all that are measured, docket first.
func peers() (all []peer) {
	parse("peers.yaml", &all)
	return all
}

// parse reads a file that is part of this program.
func parse(name string, v any) {
	report.Data(trial.Must(files.ReadFile(name)), v)
}

// config returns the configuration of p at a place.
func (p peer) config(at place) (string, error) {
	text, err := files.ReadFile("templates/" + p.Template)
	if err != nil {
		return "", err
	}
	return fill(string(text), installation{}, at)
}

// commandLine returns what starts p at a place.
func (p peer) commandLine(in installation, at place) (words []string, err error) {
	for _, text := range p.Command {
		word, err := fill(text, in, at)
		if err != nil {
			return nil, err
		}
		words = append(words, word)
	}
	return words, nil
}

func fill(text string, in installation, at place) (string, error) {
	t, err := template.New("").Option("missingkey=error").Funcs(template.FuncMap{"path": in.path}).Parse(text)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	err = t.Execute(&b, at)
	return b.String(), err
}

// contender is a peer in one of its settings.
type contender struct {
	peer
	setting
}

// key names a contender on the command line and in the results.
func (c contender) key() string { return c.peer.Name + "/" + c.setting.Name }

// contenders are all settings of all peers that the list names, of every peer for an
// empty list. The first, docket, is always among them: the others are measured beside it.
func contenders(all []peer, list string) ([]contender, error) {
	wanted := strings.Split(list, ",")
	for _, name := range wanted {
		if list != "" && !slices.Contains(peerNames(all), name) {
			return nil, fmt.Errorf("-only: there is no %q, only %s", name, strings.Join(peerNames(all), ", "))
		}
	}
	var chosen []contender
	for i, p := range all {
		if list != "" && i > 0 && !slices.Contains(wanted, p.Name) {
			continue
		}
		for _, s := range p.Settings {
			chosen = append(chosen, contender{p, s})
		}
	}
	return chosen, nil
}

func peerNames(all []peer) []string {
	var names []string
	for _, p := range all {
		names = append(names, p.Name)
	}
	return names
}
