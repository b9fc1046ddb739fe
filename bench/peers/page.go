package main

import "github.com/docket-export/docket/bench/report"

const pageHead = `<!-- Written by "go run -C bench ./peers" from its JSON: see the end of the page. -->
# Beside what people use today

The same work through docket, rsyslog and syslog-ng, in the same minutes: eight
producers write records of 1 KB, one JSON object a line, to a Unix stream socket; what
takes them keeps them and sends them on to an HTTP server, or writes them to a file.
Absolute figures belong to the machine, and on a shared one drift by a factor of two to
four; quotients are taken within a round, in which every program runs once, in another
order each time.

`

const pageRules = `## How they are run

Each program is one process with one destination, and the only one that is measured at
the time. Before the clock runs it gets an eighth of the load to warm up. What is
not at its default is in the templates, with the reason, and is the same for all where
it can be: batches of 500 records on one connection, so that the order is kept; another
attempt a second after a failed one, for ever. Lines are not parsed by the
others; docket checks that each is JSON. Who is slow gets fewer records: no load is sent for
longer than four seconds.

Producers of docket's default setting wait for acknowledgements, at most 1,024 of each
outstanding. Those of all others write and hear nothing, so they cannot know what is
lost; "plain producers" shows docket with the same.

The configurations: [docket](../bench/peers/templates/docket.yaml),
[rsyslog](../bench/peers/templates/rsyslog.conf), whose package has no plain HTTP
output, so that it speaks the bulk protocol of Elasticsearch, and
[syslog-ng](../bench/peers/templates/syslog-ng.conf).

`

const pageTail = `
## To add a peer

1. Write its configuration as a template in ` + "`bench/peers/templates`" + `: lines in at ` + "`{{.Socket}}`" + `,
   a Unix stream socket; out to ` + "`http://{{.Host}}:{{.Port}}/`" + ` as lines, or to ` + "`{{.Export}}/*.ndjson`" + ` where
   that is set; what it keeps, in ` + "`{{.Directory}}`" + `. ` + "`place`" + ` in ` + "`peer.go`" + ` says the rest.
2. Write a file beside ` + "`rsyslog.go`" + ` with a ` + "`peer`" + `: its name, Debian's packages, the template, how
   to start it in the foreground.
3. Name its settings there, at least the default and the safest, with what each promises. The template
   sees the name as ` + "`{{.Setting}}`" + `.
4. Add it to ` + "`peers`" + ` in ` + "`peer.go`" + `.
5. Run ` + "`go run -C bench ./peers -only NAME -rounds 1`" + `. It fails where a record does not arrive byte for byte.

It needs no code to tell that it is ready, or what it has taken. It is ready when its socket takes a connection; it has
taken a load when it has read every stream to its end and closed the connection, or has acknowledged the load in
docket's protocol, where the setting says ` + "`acknowledged`" + `.

## How to measure again

    make bench-peers                                      # the tables, on this machine
    go run -C bench ./peers -only rsyslog -rounds 1          # docket and one of them
    go run -C bench ./peers -json peers/results.json -markdown ../docs/peers.md
    go run -C bench ./peers -from peers/results.json -markdown ../docs/peers.md

The packages are downloaded once with ` + "`apt-get`" + ` and unpacked below ` + "`.cache/peers`" + `; nothing is installed. The third line
measures and writes this page; the fourth writes it again without measuring.
`

// WritePage writes docs/peers.md.
func (r *outcome) WritePage(p *report.Page) {
	p.Printf("%s- %s\n\n%s\n\n## Targets\n\n", pageHead, r.Machine, r.conditions())
	p.Table(r.claimRows())
	p.Printf("\n\"%s\" is taken in each round among those settings that have lost nothing in any round, neither on\n"+
		"that way nor by SIGKILL.\n\n", fastestSafe)
	for _, m := range r.Measures {
		p.Printf("## %s\n\n%s\n\n", m.Title, m.About)
		p.Table(r.rows(m))
		p.Printf("\n")
	}
	p.Printf("%s", pageRules)
	p.Table(r.contenderRows())
	p.Printf("%s", pageTail)
}
