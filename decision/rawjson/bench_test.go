package rawjson

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

type shape struct {
	name string
	line []byte
}

// shapes are lines of some 1 KB: common ones, and some that are hard.
func shapes(b *testing.B) []shape {
	record := records(b)[2]
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, record, "", "    "); err != nil {
		b.Fatal(err)
	}
	text := func(s string) []byte { return []byte(`{"text":"` + strings.Repeat(s, 1024/len(s)) + `"}`) }
	list := func(s string) []byte { return []byte(`[` + strings.Repeat(s+`,`, 1024/len(s)) + `0]`) }
	return []shape{
		{"record", record},
		{"pretty", pretty.Bytes()},
		{"long", text("x")},
		{"escapes", text(`{\"kind\":\"Pod\",\"path\":\"C:\\\\x\\n\"},\u00e9 `)},
		{"latin", text("Die Prüfung schlägt überall fehl, wo sie möglich ist. ")},
		{"cyrillic", text("вы должны указать метки, ")},
		{"cjk", text("您必须提供标签。")},
		{"numbers", list(`0,-1,12,345.25,6.02e+23,1795246653.2353003,42`)},
		{"words", list(`true,false,null,{},[],""`)},
		{"objects", list(`{"a":1,"b":"x","c":[1,2]}`)},
	}
}

func BenchmarkValid(b *testing.B) {
	validators := []struct {
		name  string
		valid func([]byte) bool
	}{
		{"rawjson", func(line []byte) bool { return KindOf(line) != Invalid }},
		{"stdlib", func(line []byte) bool { return utf8.Valid(line) && json.Valid(line) }},
	}
	for _, s := range shapes(b) {
		for _, v := range validators {
			b.Run(s.name+"/"+v.name, func(b *testing.B) {
				b.SetBytes(int64(len(s.line)))
				b.ReportAllocs()
				for b.Loop() {
					if !v.valid(s.line) {
						b.Fatalf("not valid: %q", s.line)
					}
				}
			})
		}
	}
}
