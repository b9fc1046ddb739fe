package main

const (
	contentsGo = "sinks/filesink/verify/contents.go"
	proveGo    = "sinks/filesink/verify/prove.go"
	needlesGo  = "exporter/filter/needles.go"
	searchGo   = "cli/querycmd/search.go"
)

// ofQuery has a defect for each promise of a search: nothing is written that was not proven, no
// record is left out, and none is met twice.
var ofQuery = []mutant{
	{
		defect: "what was exchanged after the proof is read",
		file:   contentsGo,
		old:    "manifest.Hash(r.hash.Sum(nil)) != r.sums[0]",
		new:    "false",
		tests:  []string{"TestProvenThenForged"},
	},
	{
		defect: "a manifest that was edited after the proof is believed",
		file:   proveGo,
		old:    "if head != v.report.Head {",
		new:    "if false {",
		tests:  []string{"TestProvenManifestForged"},
	},
	{
		defect: "records behind the anchor are taken for proven",
		file:   proveGo,
		old:    "line <= m.Line",
		new:    "true",
		tests:  []string{"TestProve"},
	},
	{
		defect: "the unfinished file is taken for proven by an anchor before it",
		file:   proveGo,
		old:    "case m.Kind == FromReference, line == 0:",
		new:    "case m.Kind == FromReference:",
		tests:  []string{"TestProve"},
	},
	{
		defect: "a file that is being finished is searched twice",
		file:   contentsGo,
		old:    "if listed[name] || name == finishing {",
		new:    "if listed[name] {",
		tests:  []string{"TestOpenFinishing"},
	},
	{
		defect: "a file is finished between the list and the position, and its records are left out or doubled",
		file:   contentsGo,
		old:    " && p.Manifest == again.Manifest",
		new:    "",
		tests:  []string{"TestOpenBusy"},
	},
	{
		defect: "a file that is not there is left out without a word",
		file:   contentsGo,
		old:    "c.Problems = append(c.Problems, fmt.Sprintf(\"%s is missing: the manifest lists it\", e.Name))\n",
		new:    "",
		tests:  []string{"TestOpen"},
	},
	{
		defect: "a record that hides what is asked for in an escape is left out",
		file:   needlesGo,
		old:    "!n.isIn(record) && !hidesText(record)",
		new:    "!n.isIn(record)",
		tests:  []string{"TestMayTake"},
	},
	{
		defect: "a word of package decision is looked for in the record",
		file:   needlesGo,
		old:    "\"policy.name\": inPart",
		new:    "\"policy.kind\": inPart, \"policy.name\": inPart",
		tests:  []string{"TestMayTake"},
	},
	{
		defect: "a part of a text is looked for with quotes",
		file:   needlesGo,
		old:    "return needleOf(inPart, args[0])",
		new:    "return needleOf(whole, args[0])",
		tests:  []string{"TestMayTake"},
	},
	{
		defect: "--to is inclusive",
		file:   "cli/querycmd/moment.go",
		old:    "(to.IsZero() || m.at.Before(to))",
		new:    "(to.IsZero() || !m.at.After(to))",
		tests:  []string{"TestWithin"},
	},
	{
		defect: "a search reads ahead without bound",
		file:   searchGo,
		old:    "make(chan *block, blocksAhead)",
		new:    "make(chan *block, 100_000)",
		tests:  []string{"TestSearchMemory"},
	},
	{
		defect: "lines of which no anchor vouches are searched",
		file:   searchGo,
		old:    "b.counts != nil && !b.counts(n) || ",
		new:    "",
		tests:  []string{"TestSearchLines"},
	},
	{
		defect: "csv has a formula",
		file:   "cli/querycmd/rows.go",
		old:    "\t\tline = append(line, '\\'')\n",
		new:    "",
		tests:  []string{"TestCSVIsSafe"},
	},
}
