package chart

import (
	"encoding/xml"
	"fmt"
	"strings"
)

// describe says in words what is to be seen.
func (c *Chart) describe() string {
	var s strings.Builder
	s.WriteString(c.About)
	for _, g := range c.Groups {
		if s.WriteByte('\n'); g.Title != "" {
			fmt.Fprintf(&s, "%s: ", g.Title)
		}
		for i := range g.Bars {
			b := &g.Bars[i]
			if i > 0 {
				s.WriteString("; ")
			}
			s.WriteString(c.describeBar(b))
		}
		s.WriteByte('.')
	}
	return strings.TrimSpace(s.String())
}

func (c *Chart) describeBar(b *Bar) string {
	value, span := b.text()
	if b.Text == "" && c.Unit != "" {
		value += " " + c.Unit
	}
	if span != "" {
		value += ", " + span
	}
	if b.Target != nil {
		value += ", target " + b.Target.String()
	}
	return b.Label + " " + value
}

// wrap cuts text into lines of at most so many letters, between words.
func wrap(text string, letters int) (lines []string) {
	for _, word := range strings.Fields(text) {
		if n := len(lines); n > 0 && len(lines[n-1])+1+len(word) <= letters {
			lines[n-1] += " " + word
			continue
		}
		lines = append(lines, word)
	}
	return lines
}

func escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a Builder takes everything
	return b.String()
}
