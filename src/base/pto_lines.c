/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `pto-lines PATH OFFSET...`: prints for each pair the functions, files and lines at that offset of
 * the object, innermost first, then an empty line. The library starts it (base/lines.c).
 */
#include <dwarf.h>
#include <elfutils/libdwfl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *no_path = "";
static const Dwfl_Callbacks callbacks = {
    .find_elf = dwfl_build_id_find_elf,
    .find_debuginfo = dwfl_standard_find_debuginfo,
    .debuginfo_path = &no_path,
};

static void pto_lines_print_line(const char *function, const char *file, int line)
{
    printf("%s\t%s\t%d\n", function != NULL ? function : "", file != NULL ? file : "?", line);
}

static int number_of(Dwarf_Die *die, unsigned int name)
{
    Dwarf_Attribute attribute;
    Dwarf_Word value;

    return dwarf_attr_integrate(die, name, &attribute) != NULL &&
                   dwarf_formudata(&attribute, &value) == 0
               ? (int)value
               : 0;
}

static const char *caller_file(Dwarf_Die *unit, Dwarf_Die *inlined)
{
    Dwarf_Files *files;
    size_t count;

    return dwarf_getsrcfiles(unit, &files, &count) == 0
               ? dwarf_filesrc(files, (size_t)number_of(inlined, DW_AT_call_file), NULL, NULL)
               : NULL;
}

/*
 * Finds the innermost function at the address, inlined or not, and all functions that contain it in
 * the code. (dwarf_getscopes returns, for an inlined function, the scopes in which its source was
 * written.) The caller frees the list.
 */
static int find_scopes(Dwarf_Die *unit, Dwarf_Addr at, Dwarf_Die **scopes_out)
{
    Dwarf_Die *scopes = NULL;
    int count = dwarf_getscopes(unit, at, &scopes), found = 0;

    for (int i = 0; i < count && found == 0; i++)
        if (dwarf_tag(&scopes[i]) == DW_TAG_inlined_subroutine ||
            dwarf_tag(&scopes[i]) == DW_TAG_subprogram)
            found = dwarf_getscopes_die(&scopes[i], scopes_out);
    free(scopes);
    return found;
}

/*
 * Prints each inlined function at the address, then the function that contains them. False: no
 * function is known.
 */
static bool print_functions(Dwarf_Die *unit, Dwarf_Addr at, const char *file, int line)
{
    Dwarf_Die *scopes = NULL;
    int count = find_scopes(unit, at, &scopes);
    bool is_printed = false;

    for (int i = 0; i < count && !is_printed; i++) {
        int tag = dwarf_tag(&scopes[i]);

        if (tag == DW_TAG_inlined_subroutine) {
            pto_lines_print_line(dwarf_diename(&scopes[i]), file, line);
            file = caller_file(unit, &scopes[i]);
            line = number_of(&scopes[i], DW_AT_call_line);
        } else if (tag == DW_TAG_subprogram) {
            pto_lines_print_line(dwarf_diename(&scopes[i]), file, line);
            is_printed = true;
        }
    }
    free(scopes);
    return is_printed;
}

static void pto_lines_print_place(const char *path, Dwarf_Addr offset)
{
    Dwfl *dwfl = dwfl_begin(&callbacks);
    Dwfl_Module *module = NULL;
    Dwfl_Line *source = NULL;
    Dwarf_Die *unit = NULL;
    const char *file = NULL;
    Dwarf_Addr bias = 0;
    int line = 0;

    if (dwfl != NULL)
        module = dwfl_report_elf(dwfl, path, path, -1, 0, false);
    if (dwfl != NULL)
        dwfl_report_end(dwfl, NULL, NULL);
    if (module != NULL) {
        source = dwfl_module_getsrc(module, offset);
        unit = dwfl_module_addrdie(module, offset, &bias);
    }
    if (source != NULL)
        file = dwfl_lineinfo(source, NULL, &line, NULL, NULL, NULL);
    if (module != NULL && (unit == NULL || !print_functions(unit, offset - bias, file, line))) {
        const char *symbol = dwfl_module_addrname(module, offset);

        if (symbol != NULL)
            pto_lines_print_line(symbol, file != NULL ? file : path, line);
    }
    printf("\n");
    dwfl_end(dwfl);
}

int main(int argc, char **argv)
{
    /* otherwise elfutils would download missing debug information from these servers */
    unsetenv("DEBUGINFOD_URLS");
    for (int i = 1; i + 1 < argc; i += 2)
        pto_lines_print_place(argv[i], strtoull(argv[i + 1], NULL, 16));
    return 0;
}
