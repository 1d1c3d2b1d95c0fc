# Eight sums, each by a process of its own. The first of them looks into a table, which takes as long as several of them.
# EACH=yes: all of them wait for the table, though only one needs it.
sums := $(addprefix $(DIR)/,1 2 3 4 5 6 7 8)

all: $(sums)
	@echo "progress: 8 sums"

$(DIR)/table:
	awk 'BEGIN { for (i = 0; i < 24000000; i++) sum += i % 7; print sum }' > $@

$(DIR)/1: $(DIR)/table
$(if $(EACH),$(sums): $(DIR)/table)

$(sums):
	awk 'BEGIN { for (i = 0; i < 4000000; i++) sum += i % 11; print sum }' > $@

.PHONY: all
