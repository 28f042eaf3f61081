# Writes the texts of presets and recipes as C++ source, so that the program
# needs no file: cmake -DSOURCE=.. -DOUT=FILE -P embed.cmake
set(text "#include \"harness/sweeps/presets.h\"\n\nnamespace subquad {\n")
foreach(table "PresetFiles;harness/sweeps/presets" "RecipeFiles;reports/recipes")
  list(GET table 0 function)
  list(GET table 1 folder)
  string(APPEND text "\nconst std::vector<Preset>& ${function}() {\n"
    "  static const std::vector<Preset> files = {\n")
  file(GLOB files ${SOURCE}/${folder}/*.json)
  foreach(file IN LISTS files)
    get_filename_component(name ${file} NAME_WE)
    file(READ ${file} content)
    string(APPEND text "      {\"${name}\", R\"JSON(${content})JSON\"},\n")
  endforeach()
  string(APPEND text "  };\n  return files;\n}\n")
endforeach()
file(WRITE ${OUT} "${text}\n}  // namespace subquad\n")
