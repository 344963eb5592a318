"""What a dump of a Ruby heap tells: analyser → content → terminal, page or picture."""
