# Writes the texts of JSON files as C++ source, so that the program needs no
# files: cmake -DSOURCE=.. -DOUT=FILE -DTABLES=FUNCTION=PATTERN;.. -P embed.cmake
# Each function returns the texts by file name, or by folder if all files have
# the same name.
set(text "#include \"harness/sweeps/presets.h\"\n\nnamespace subquad {\n")
foreach(table IN LISTS TABLES)
  string(REPLACE "=" ";" table "${table}")
  list(GET table 0 function)
  list(GET table 1 pattern)
  string(APPEND text "\nconst std::vector<Preset>& ${function}() {\n"
    "  static const std::vector<Preset> files = {\n")
  file(GLOB files ${SOURCE}/${pattern})
  foreach(file IN LISTS files)
    get_filename_component(name ${file} NAME_WE)
    if(NOT pattern MATCHES "\\*[^/]*$")
      get_filename_component(folder ${file} DIRECTORY)
      get_filename_component(name ${folder} NAME)
    endif()
    file(READ ${file} content)
    string(APPEND text "      {\"${name}\", R\"JSON(${content})JSON\"},\n")
  endforeach()
  string(APPEND text "  };\n  return files;\n}\n")
endforeach()
file(WRITE ${OUT} "${text}\n}  // namespace subquad\n")
